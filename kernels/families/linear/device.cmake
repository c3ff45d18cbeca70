# Sources of this family for nvcc.
target_sources(cplab_kernels_portable PRIVATE
  "${family_folder}/gated/combine.cu"
  "${family_folder}/scan.cu"
  "${family_folder}/state.cu"
  "${family_folder}/walk.cu"
  "${family_folder}/walk_mma.cu"
)
if(CPLAB_HOPPER)
  target_sources(cplab_kernels_gated PRIVATE
    "${family_folder}/gated/bf16.cu"
    "${family_folder}/gated/fp16.cu"
    "${family_folder}/gated/fp32.cu"
  )
  foreach(head_size ${hopper_head_sizes})
    foreach(value_size ${hopper_head_sizes})
      set(instance "${CMAKE_CURRENT_BINARY_DIR}/linear_hopper_${head_size}_${value_size}.cu")
      configure_file("${family_folder}/hopper/instance.cu.in" "${instance}" @ONLY)
      target_sources(cplab_kernels_hopper PRIVATE "${instance}")
    endforeach()
  endforeach()
endif()
