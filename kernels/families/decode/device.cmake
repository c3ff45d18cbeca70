# A translation unit for each pair of head sizes.
add_pair_instances(cplab_kernels_portable "${family_folder}/forward.cu.in" attend_decode "${decode_head_pairs}")
if(CPLAB_HOPPER)
  add_pair_instances(cplab_kernels_hopper "${family_folder}/wide.cu.in" attend_decode_wide "${decode_wide_head_pairs}")
endif()
target_sources(cplab_kernels PRIVATE "${family_folder}/kernels.cpp")
