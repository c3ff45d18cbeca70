# Sources of this family for the host; device.cmake has those of its kernels.
target_sources(cplab_kernels PRIVATE
  "${family_folder}/family.cpp"
)
