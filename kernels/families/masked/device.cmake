foreach(kernel general_backward general_forward scan select)
  target_sources(cplab_kernels_portable PRIVATE "${family_folder}/${kernel}.cu")
endforeach()
foreach(direction forward backward)
  add_instances(cplab_kernels_portable "${family_folder}/${direction}.cu.in" attend_${direction}_masked
    "${mma_head_sizes}")
endforeach()
