# Sources of this family for the host; device.cmake has those of its kernels.
target_sources(cplab_kernels PRIVATE
  "${family_folder}/any_order.cpp"
  "${family_folder}/chains.cpp"
  "${family_folder}/families.cpp"
  "${family_folder}/family.cpp"
  "${family_folder}/in_chains.cpp"
  "${family_folder}/ordered.cpp"
  "${family_folder}/turns.cpp"
)
