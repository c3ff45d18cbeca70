# A translation unit for each pair of head sizes.
foreach(direction forward backward)
  add_pair_instances(cplab_kernels_portable "${family_folder}/${direction}.cu.in" attend_${direction}_mma
    "${mma_head_pairs}")
endforeach()
target_sources(cplab_kernels PRIVATE "${family_folder}/kernels.cpp")
