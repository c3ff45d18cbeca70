# A translation unit for each head size.
if(CPLAB_HOPPER)
  set(all_head_sizes ${hopper_head_sizes} ${hopper_wide_head_sizes})
  add_instances(cplab_kernels_hopper "${family_folder}/instance.cu.in" attend_backward_deterministic_hopper
    "${all_head_sizes}")
endif()
target_sources(cplab_kernels PRIVATE "${family_folder}/kernels.cpp")
