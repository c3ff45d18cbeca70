# A translation unit for each head size, and one for each kernel that one head size alone has.
if(CPLAB_HOPPER)
  add_instances(cplab_kernels_hopper "${family_folder}/instance.cu.in" attend_backward_fused_hopper
    "${hopper_head_sizes}")
  target_sources(cplab_kernels_hopper PRIVATE "${family_folder}/instance_64_keys.cu"
    "${family_folder}/instance_chains.cu")
endif()
target_sources(cplab_kernels PRIVATE "${family_folder}/kernels.cpp")
