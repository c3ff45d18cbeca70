// Joins the table of kernels, the functions of their families and what the compiler said; see
// kernels/compiled.hpp.
#include "kernels/compiled.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>

#include "kernels/cuda/compiled_rows.hpp"
#include "kernels/cuda/kernel_table.hpp"
#include "kernels/cuda/linear_table.hpp"
#include "kernels/families/elementwise/elementwise.hpp"
#include "kernels/families/masked/masked.hpp"
#include "kernels/families/products/products.hpp"

namespace cplab::kernels::cuda {
namespace {

// What the demangler makes of a symbol. nvcc calls the unnamed namespace of a file
// _GLOBAL__N__HASH_FILE_HASH.
std::string readable(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), &std::free);
  std::string name = status == 0 ? text.get() : symbol;
  for (std::size_t at = 0; (at = name.find("_GLOBAL__N__", at)) != std::string::npos;)
    name.replace(at, name.find("::", at) - at, "(anonymous namespace)");
  return name;
}

// Of "KernelTag<&(void f<...>(Params))>" what is between the brackets: the function as readable() has it.
std::string function_of(const std::type_info& tag) {
  const std::string name = readable(tag.name());
  std::size_t begin = name.find("<&"), end = name.rfind('>');
  if (begin == std::string::npos || end < begin + 3) throw std::logic_error(name + ": not a kernel's tag");
  begin += 2;
  if (name[begin] == '(') ++begin, --end;
  return name.substr(begin, end - begin);
}

using Codes = std::map<std::string, std::map<std::string, CompiledCode>>;  // by function and architecture

bool equal(const CompiledCode& a, const CompiledCode& b) {
  return a.registers == b.registers && a.barriers == b.barriers && a.stack_bytes == b.stack_bytes &&
         a.spill_store_bytes == b.spill_store_bytes && a.spill_load_bytes == b.spill_load_bytes &&
         a.static_shared_bytes == b.static_shared_bytes;
}

Codes read_codes() {
  Codes codes;
  for (std::size_t n = 0; n < compiled_row_count; ++n) {
    const CompiledRow& row = compiled_rows[n];
    const auto [at, is_new] = codes[readable(row.symbol)].emplace(row.code.architecture, row.code);
    // Templates are compiled in several objects; the linker takes one.
    if (!is_new && !equal(at->second, row.code))
      throw std::logic_error(std::string(row.symbol) + ": two kernels of this name that differ");
  }
  return codes;
}

struct NamedFunction {
  std::string variant;
  KernelFunction function;
};

template <class Variants>
void add(std::vector<NamedFunction>& all, const Variants& variants) {
  for (const auto& variant : variants)
    for (const KernelFunction& function : kernel_of(variant).functions)
      all.push_back({variant.name, function});
}

std::vector<NamedFunction> functions_of(const KernelBuild& build) {
  std::vector<NamedFunction> all;
  add(all, attend_variants(build));
  add(all, attend_backward_variants(build));
  add(all, linear_variants(build));
  add(all, masked_variants(build));
  add(all, masked_backward_variants(build));
  for (const NamedKernel& scan : mask_scans()) all.push_back({scan.name, scan.function});
  for (const NamedKernel& selection : key_selections()) all.push_back({selection.name, selection.function});
  for (const NamedKernel& kernel : elementwise_kernels()) all.push_back({kernel.name, kernel.function});
  for (const NamedKernel& kernel : product_kernels()) all.push_back({kernel.name, kernel.function});
  return all;
}

CompiledKernels read() {
  CompiledKernels result{
      .build = built_kernels(), .build_hash = compiled_hash, .kernels = {}, .without_an_entry = {}};
  const std::span<const KernelEntry> entries = kernel_entries(result.build);
  const std::vector<NamedFunction> functions = functions_of(result.build);
  if (entries.size() != functions.size())
    throw std::logic_error(std::to_string(functions.size()) + " kernels, " + std::to_string(entries.size()) +
                           " entries");
  const Codes codes = read_codes();
  std::set<std::string> described;
  for (std::size_t n = 0; n < entries.size(); ++n) {
    const KernelEntry& entry = entries[n];
    const auto& [variant, function] = functions[n];
    if (entry.variant != variant) throw std::logic_error(entry.name() + ": the code is of " + variant);
    if (function.shape != KernelShape{entry.threads, entry.tile_rows, entry.tile_columns, entry.stages})
      throw std::logic_error(entry.name() + ": threads, tile or stages are not those of the code");
    if (function.claim != entry.claim)
      throw std::logic_error(entry.name() + ": claims other architectures than the code");
    const std::string name = function_of(*function.tag);
    auto found = codes.find(name);
    // Of a function that is no template the demangler leaves the parameters out of the tag.
    if (found == codes.end()) found = codes.lower_bound(name + "(");
    if (found == codes.end() || !found->first.starts_with(name))
      throw std::logic_error(entry.name() + ": the compiler said nothing of " + name);
    described.insert(found->first);
    CompiledKernel& kernel = result.kernels.emplace_back();
    kernel.entry = &entry;
    kernel.address = function.address;
    kernel.dynamic_shared_bytes = function.shared_bytes;
    for (const auto& [architecture, code] : found->second) kernel.codes.push_back(code);
  }
  for (const auto& [name, code] : codes)
    if (!described.contains(name)) result.without_an_entry.push_back(name);
  return result;
}

}  // namespace

const CompiledKernels* compiled_kernels() {
  static const CompiledKernels kernels = read();
  return &kernels;
}

}  // namespace cplab::kernels::cuda
