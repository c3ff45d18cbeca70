# Sources of this family for nvcc.
target_sources(cplab_kernels_portable PRIVATE
  "${family_folder}/general_backward.cu"
  "${family_folder}/general_forward.cu"
  "${family_folder}/scan.cu"
  "${family_folder}/select.cu"
)
foreach(direction forward backward)
  add_instances(cplab_kernels_portable "${family_folder}/${direction}.cu.in" attend_${direction}_masked
    "${mma_head_sizes}")
endforeach()
if(CPLAB_HOPPER)
  foreach(direction forward backward)
    add_instances(cplab_kernels_hopper "${family_folder}/hopper/${direction}.cu.in"
      attend_${direction}_masked_hopper "${hopper_head_sizes}")
  endforeach()
endif()
