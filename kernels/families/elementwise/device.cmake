# Sources of the row-wise kernels for nvcc.
target_sources(cplab_kernels_portable PRIVATE
  "${family_folder}/convolution.cu"
  "${family_folder}/elementwise.cu"
  "${family_folder}/sink_gradient.cu")
