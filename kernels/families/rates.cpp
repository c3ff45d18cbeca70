// Rates of the shipped hardware files; see rates.hpp.
#include "kernels/families/rates.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace cplab::kernels::cuda {
namespace {

struct ShippedRate {
  std::string_view section, key;
  double value;
};

// A hardware file that has a section [rates]; one that leaves rates out has them of the reference.
struct ShippedFile {
  std::string_view name, gpu;
  int sms, sm_major, sm_minor;
  std::vector<ShippedRate> rates;
};

const std::vector<ShippedFile>& shipped_files() {
  static const std::vector<ShippedFile> files = {
#include "shipped_rates.inc"
  };
  return files;
}

// The file with all rates, which are those of the GPU that most were measured on.
constexpr std::string_view reference_file = "h200x4.toml";

// Bytes/s of GPUs of which no hardware file is shipped, from the data sheet of the fastest product with that
// compute capability: A100 80GB, RTX 3090, RTX 4090.
struct DataSheet {
  int sm_major, sm_minor;
  double memory_bytes_s;
};
constexpr DataSheet data_sheets[] = {{8, 0, 2.04e12}, {8, 6, 0.94e12}, {8, 9, 1.01e12}};
constexpr double no_limit = 1e13;

std::string capability_name(int sm_major, int sm_minor) {
  return std::to_string(sm_major) + "." + std::to_string(sm_minor);
}

void overwrite(Rates& rates, const ShippedFile& file) {
  rates.source = file.name;
  for (const ShippedRate& rate : file.rates) {
    const auto* const found = std::find_if(
        std::begin(rate_names), std::end(rate_names),
        [&](const RateName& name) { return name.section == rate.section && name.key == rate.key; });
    if (found == std::end(rate_names))
      throw std::logic_error(std::string(file.name) + " has an unknown rate " + std::string(rate.key));
    rates[found->rate] = rate.value;
  }
}

Rates reference_rates() {
  Rates rates;
  for (const ShippedFile& file : shipped_files())
    if (file.name == reference_file) overwrite(rates, file);
  if (std::any_of(rates.values.begin(), rates.values.end(), [](double value) { return value <= 0; }))
    throw std::logic_error("a rate is missing in " + std::string(reference_file));
  return rates;
}

const Rates& reference() {
  static const Rates rates = reference_rates();
  return rates;
}

Rates of_data_sheet(int sm_major, int sm_minor) {
  Rates rates = reference();
  const std::string capability = capability_name(sm_major, sm_minor);
  double memory_bytes_s = no_limit;
  for (const DataSheet& sheet : data_sheets)
    if (sheet.sm_major == sm_major && sheet.sm_minor == sm_minor) memory_bytes_s = sheet.memory_bytes_s;
  rates.source += ", with the memory of compute capability " + capability;
  rates[Rate::memory_bytes_s] = rates[Rate::rowwise_bytes_s] = memory_bytes_s;
  return rates;
}

// One for each file, in their order, then one for each data sheet and one for all other capabilities.
struct All {
  std::vector<Rates> of_files, of_sheets;
  Rates of_others;
};

const All& all() {
  static const All rates = [] {
    All made;
    for (const ShippedFile& file : shipped_files()) overwrite(made.of_files.emplace_back(reference()), file);
    for (const DataSheet& sheet : data_sheets)
      made.of_sheets.push_back(of_data_sheet(sheet.sm_major, sheet.sm_minor));
    made.of_others = of_data_sheet(0, 0);
    made.of_others.source = reference().source + ", whose GPU is another";
    return made;
  }();
  return rates;
}

}  // namespace

const Rates& shipped_rates(std::string_view gpu, int sms, int sm_major, int sm_minor) {
  const std::vector<ShippedFile>& files = shipped_files();
  for (std::size_t n = 0; n < files.size(); ++n)
    if (files[n].gpu == gpu && files[n].sms == sms) return all().of_files[n];
  return shipped_rates(sm_major, sm_minor);
}

const Rates& shipped_rates(int sm_major, int sm_minor) {
  const std::vector<ShippedFile>& files = shipped_files();
  if (files.empty()) throw std::logic_error("no hardware file with rates was compiled in");
  std::size_t best = files.size();
  for (std::size_t n = 0; n < files.size(); ++n)
    if (files[n].sm_major == sm_major && files[n].sm_minor == sm_minor &&
        (best == files.size() || files[n].name == reference_file))
      best = n;
  if (best < files.size()) return all().of_files[best];
  for (std::size_t n = 0; n < std::size(data_sheets); ++n)
    if (data_sheets[n].sm_major == sm_major && data_sheets[n].sm_minor == sm_minor) return all().of_sheets[n];
  return all().of_others;
}

}  // namespace cplab::kernels::cuda
