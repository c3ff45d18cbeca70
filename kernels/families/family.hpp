// A family of attention kernels, whole: which calls it takes, how it cuts them into tiles, what its launch is
// told beside the operands, how long it takes, and what its kernels need. Everything is asked through these
// two classes; a family is a folder of kernels/families and a line of kernels/CMakeLists.txt.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/families/kernel_entries.hpp"
#include "kernels/families/variants.hpp"

namespace cplab::kernels::cuda {

class CallTables;  // call_tables.hpp
struct AttendParams;
struct AttendBackwardParams;

// How long a call takes on an otherwise idle GPU, s: the longer of two times.
struct PredictedTime {
  double tiles_s = 0;   // launches, tiles one after the other, and what else is done for them
  double memory_s = 0;  // a launch, and every view once at the bandwidth of memory

  double seconds() const { return std::max(tiles_s, memory_s); }
  // The choice among kernels: where memory binds both, the one whose tiles are done first.
  bool shorter_than(const PredictedTime& other) const {
    return seconds() != other.seconds() ? seconds() < other.seconds() : tiles_s < other.tiles_s;
  }
};

class AttendFamily {
 public:
  virtual std::string_view name() const = 0;  // kernels that share code and tables of times: "hopper"
  // The variants of a build, the preferred ones first.
  virtual std::vector<AttendVariant> variants(const KernelBuild&) const = 0;
  // The functions of a variant (resources): threads, tiles, stages, which architectures have room.
  virtual std::vector<KernelEntry> entries(const AttendVariant&) const = 0;
  virtual Unmet unmet(const AttendVariant&, const Attend&) const = 0;
  // The tiles of a call that the variant takes.
  virtual ChosenForward tiles(const AttendVariant&, const Attend&, const VariantOptions&) const = 0;
  // How long the call takes with these tiles, each of which takes as long as its blocks of the other side's
  // rows, one after the other on that of options.sms multiprocessors that is free first. Rates say how long:
  // options.speeds().
  virtual PredictedTime time(const ChosenForward&, const Attend&, const VariantOptions&) const = 0;
  // us for a FLOP on one multiprocessor that is never idle.
  virtual double flop_us(const AttendVariant&, const Rates&) const = 0;
  // Thread blocks of a persistent kernel that a multiprocessor has at once.
  virtual int blocks_together(const AttendVariant&) const { return 1; }
  // Sets what the launch is told beside operands and tiles, and places the memory that it needs.
  virtual void set_parameters(AttendParams&, CallTables&, const ChosenForward&, const Attend&) const {}
  // Whether it is made for any number of queries: what others are slower than.
  virtual bool for_any_queries(const AttendVariant&) const { return true; }
  // How often the launch takes each tile of the list.
  virtual std::int64_t tile_heads(const AttendVariant&, const Attend& call) const { return call.q.heads; }

 protected:
  ~AttendFamily() = default;
};

class AttendBackwardFamily {
 public:
  virtual std::string_view name() const = 0;
  virtual std::vector<AttendBackwardVariant> variants(const KernelBuild&) const = 0;
  virtual std::vector<KernelEntry> entries(const AttendBackwardVariant&) const = 0;
  virtual Unmet unmet(const AttendBackwardVariant&, const AttendBackward&) const = 0;
  // The tiles as they are cut; order() puts them in the order in which they are taken. What is compared are
  // times of lists as cut.
  virtual ChosenBackward tiles(const AttendBackwardVariant&, const AttendBackward&,
                               const VariantOptions&) const = 0;
  virtual void order(ChosenBackward&, const AttendBackward& /*as launched*/, const VariantOptions&) const {}
  // As AttendFamily::time(). `call` is as asked for: casts behind the launch are in it. Where the call
  // computes delta, that is not, but for what is spared because of it.
  virtual PredictedTime time(const ChosenBackward&, const AttendBackward& call,
                             const VariantOptions&) const = 0;
  virtual double flop_us(const AttendBackwardVariant&, const Rates&) const = 0;
  // Sets what the launch is told beside operands and tiles. `launched`: as_launched().
  virtual void set_parameters(AttendBackwardParams&, CallTables&, const ChosenBackward&,
                              const AttendBackward& /*launched*/) const {}
  // Whether the kernel gains by loading its first blocks while another launch computes delta and zeros, for
  // which it begins later. tiles: of the launch.
  virtual bool loads_beside_preparation(std::int64_t /*tiles*/, std::int64_t /*sms*/) const { return false; }
  // Whether the launch stores the first piece of each cell of dq, so that nobody sets dq to 0 before.
  virtual bool stores_first_dq(const ChosenBackward&, const AttendBackward&) const { return false; }
  // Whether a table of measured times of this family's name is of tiles that cost as these do.
  virtual bool has_times_of_its_name() const { return true; }

 protected:
  ~AttendBackwardFamily() = default;
};

// All families of a build, in the order of kernels/CMakeLists.txt.
struct Families {
  std::vector<const AttendFamily*> forward;
  std::vector<const AttendBackwardFamily*> backward;
};
const Families& attention_families();

}  // namespace cplab::kernels::cuda
