// A section of a hardware file, key by key. Internal to the readers of hardware files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/files/hardware_table.hpp"

namespace cplab {

// One table, read key by key: what is wrong with one key does not hide what is wrong with the next.
class SectionReader {
 public:
  static OpKind read_kind(const Table& table, const char* key, const std::vector<OpKind>& kinds) {
    return choice(table, key, table.text(key), kinds, [](OpKind kind) { return name(kind); });
  }

  static Transport read_transport(const Table& table, const char* key) {
    return choice(table, key, table.text(key), std::vector{Transport::nccl, Transport::copy},
                  [](Transport transport) { return name(transport); });
  }

  static int small_integer(const Table& table, const char* key, std::int64_t value, std::int64_t least) {
    if (value < least || value > 1'000'000)
      table.fail(key, "must lie between " + std::to_string(least) + " and 1000000");
    return static_cast<int>(value);
  }

  SectionReader(Table of, std::string section, HardwareFaults& faults)
      : table(std::move(of)), section_(std::move(section)), faults_(faults) {}

  template <class Read>
  void attempt(Read read) {
    faults_.attempt(section_, read);
  }
  void number(const char* key, double& to) {
    attempt([&] { to = table.number(key); });
  }
  void quantity(const char* key, Quantity quantity, double& to) {
    attempt([&] { to = table.quantity(key, quantity); });
  }
  void bytes(const char* key, std::int64_t& to) {
    attempt([&] { to = table.whole(key, Quantity::bytes); });
  }
  void small(const char* key, std::int64_t least, int& to) {
    attempt([&] { to = small_integer(table, key, table.integer(key), least); });
  }
  void small(const char* key, std::int64_t least, int otherwise, int& to) {
    attempt([&] { to = small_integer(table, key, table.integer(key, otherwise), least); });
  }
  void kind(const char* key, const std::vector<OpKind>& kinds, OpKind& to) {
    attempt([&] { to = read_kind(table, key, kinds); });
  }
  void transport(const char* key, Transport& to) {
    attempt([&] { to = read_transport(table, key); });
  }
  void provenance(Provenance& to) {
    for (const char* key : {"tool", "machine", "date", "source"}) (void)table.has(key);
    if (!sheet_source.empty() && !table.has("origin")) {
      attempt([&] { to.source = table.text("source", sheet_source); });
      return;
    }
    attempt([&] {
      to.origin =
          choice(table, "origin", table.text("origin"), std::vector{Origin::measured, Origin::assumed},
                 [](Origin origin) { return name(origin); });
    });
    if (!table.has("origin")) return;  // said
    if (to.origin == Origin::measured) {
      attempt([&] { to.tool = table.text("tool"); });
      attempt([&] { to.machine = table.text("machine"); });
      attempt([&] { to.date = table.text("date"); });
      attempt([&] { to.source = table.text("source", ""); });
      return;
    }
    attempt([&] { to.source = table.text("source"); });
    for (const char* key : {"tool", "machine", "date"}) {
      if (table.has(key))
        attempt([&] {
          table.fail(key, "is of measured numbers; origin is \"assumed\", which has source alone");
        });
    }
  }
  // Of a section that may have been made by --set, which says nothing of origins.
  void provenance_of_optional(Provenance& to) {
    if (table.has("origin") || !made_by_set) return provenance(to);
    to = {};
    to.source = "set by hand";
  }

  Table table;
  bool made_by_set = false;
  // Of a file of a data sheet, whose sections need not say their origin: what stands for their source.
  std::string sheet_source;

 private:
  std::string section_;
  HardwareFaults& faults_;
};

}  // namespace cplab
