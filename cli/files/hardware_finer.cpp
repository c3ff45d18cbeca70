// Tables of a hardware file that say how far calls are from the other tables; see sim/finer_tables.hpp.
#include <cmath>

#include "cli/files/hardware_table.hpp"

namespace cplab {
namespace {

// One section after the other; what is wrong with one entry does not hide what is wrong with the next.
class FinerReader {
 public:
  FinerReader(const Table& root, HardwareFaults& faults) : root_(root), faults_(faults) {}

  // `read(table, entry)` for every table of the list; origins are read here.
  template <class Entry, class Read>
  void list(const std::string& name, std::vector<Entry>& entries, Read read) {
    std::vector<Table> tables;
    faults_.attempt(name, [&] { tables = root_.tables(name); });
    for (std::size_t i = 0; i < tables.size(); ++i) {
      const std::string section = name + "." + std::to_string(i);
      Entry entry;
      read_provenance(tables[i], section, faults_, entry.provenance);
      bool right = false;
      faults_.attempt(section, [&] {
        read(tables[i], entry);
        right = true;
      });
      if (right)
        entries.push_back(std::move(entry));
      else  // which keys are legal is not known of the rest
        for (const std::string& key : tables[i].keys()) (void)tables[i].has(key);
    }
  }

  void cards(CardSpread& cards) {
    if (!root_.has("cards")) return;
    faults_.attempt("cards", [&] {
      const Table table = root_.table("cards");
      read_provenance(table, "cards", faults_, cards.provenance);
      cards.attend_s = table.numbers("attend_s");
      for (const double seconds : cards.attend_s) require_seconds(table, "attend_s", seconds);
    });
  }

  static void require_seconds(const Table& table, const char* key, double seconds) {
    if (!(seconds > 0 && seconds < 1e6)) table.fail(key, "must be above 0 and below 1000000 s");
  }

 private:
  const Table& root_;
  HardwareFaults& faults_;
};

OpKind read_kind(const Table& table, const char* key, const std::vector<OpKind>& legal) {
  return choice(table, key, table.text(key), legal, [](OpKind kind) { return name(kind); });
}

const std::vector<OpKind> attention{OpKind::attend, OpKind::attend_backward};

Transport read_transport(const Table& table) {
  return choice(table, "transport", table.text("transport"), std::vector{Transport::nccl, Transport::copy},
                [](Transport transport) { return name(transport); });
}

DType read_dtype(const Table& table) {
  return choice(table, "dtype", table.text("dtype"),
                std::vector{DType::fp64, DType::fp32, DType::bf16, DType::fp16},
                [](DType dtype) { return name(dtype); });
}

// The whole numbers of a column, each at least 1 and as many as there are seconds.
std::vector<std::int64_t> column(const Table& table, const char* key, std::size_t entries) {
  std::vector<std::int64_t> values = table.integers(key);
  if (values.size() != entries)
    table.fail(key,
               "has " + std::to_string(values.size()) + " entries, seconds has " + std::to_string(entries));
  for (const std::int64_t value : values)
    if (value < 1) table.fail(key, "must be positive");
  return values;
}

std::vector<double> seconds_of(const Table& table, const char* key, std::size_t entries = 0) {
  std::vector<double> values = table.numbers(key);
  if (entries > 0 && values.size() != entries)
    table.fail(key,
               "has " + std::to_string(values.size()) + " entries, bytes has " + std::to_string(entries));
  if (values.empty()) table.fail(key, "needs at least one entry");
  for (const double value : values) FinerReader::require_seconds(table, key, value);
  return values;
}

std::vector<double> bytes_of(const Table& table) {
  std::vector<double> values = table.quantities("bytes", Quantity::bytes);
  for (const double value : values)
    if (!(value > 0)) table.fail("bytes", "must be positive");
  return values;
}

void read_form(const Table& table, FormTable& form) {
  const auto word = [&](const char* key, const char* otherwise, const char* other) {
    return choice(table, key, table.text(key, otherwise), std::vector{false, true},
                  [&](bool is_other) { return std::string(is_other ? other : otherwise); });
  };
  form.kind = read_kind(table, "class", attention);
  form.variant = table.text("variant");
  form.dtype = read_dtype(table);
  form.head_size = table.integer("head_size");
  form.causal = word("mask", "full", "causal");
  form.window = table.integer("window", -1);
  const bool forward = form.kind == OpKind::attend;
  const WriteMode other = forward ? WriteMode::merge : WriteMode::add;
  form.write = choice(table, "write", table.text("write", "store"), std::vector{WriteMode::store, other},
                      [](WriteMode mode) { return name(mode); });
  if (!forward) form.delta_inside = word("delta", "given", "inside");
  if (!forward) form.rounded = word("dq", "fp32", "rounded");
  form.row_runs = table.integer("row_runs", 1);
  const std::vector<double> seconds = seconds_of(table, "seconds");
  const auto batch = column(table, "batch", seconds.size()),
             queries = column(table, "queries", seconds.size()), keys = column(table, "keys", seconds.size()),
             heads = column(table, "heads", seconds.size()),
             kv_heads = column(table, "kv_heads", seconds.size());
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (heads[i] % kv_heads[i] != 0) table.fail("kv_heads", "must divide heads");
    form.points.push_back({batch[i], queries[i], keys[i], heads[i], kv_heads[i], seconds[i]});
  }
}

void read_pieces(const Table& table, PiecesTable& of) {
  of.kind = read_kind(table, "kind", {OpKind::copy, OpKind::exchange});
  if (of.kind == OpKind::exchange) of.transport = read_transport(table);
  const std::vector<double> seconds = seconds_of(table, "seconds"), bytes = bytes_of(table);
  if (bytes.size() != seconds.size()) table.fail("bytes", "must have as many entries as seconds");
  const auto pieces = column(table, "pieces", seconds.size());
  for (std::size_t i = 0; i < seconds.size(); ++i) of.points.push_back({bytes[i], pieces[i], seconds[i]});
}

void read_beside(const Table& table, BesideTable& of) {
  of.kind = read_kind(table, "kind", kinds_of(true));
  of.transport = read_transport(table);
  of.beside = read_kind(table, "beside", kinds_of(false));
  const std::vector<double> bytes = bytes_of(table), alone = seconds_of(table, "alone_s", bytes.size()),
                            seconds = seconds_of(table, "beside_s", bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) of.points.push_back({bytes[i], alone[i], seconds[i]});
}

void read_launch(const Table& table, LaunchCost& cost) {
  std::vector<OpKind> all;
  for (int i = 0; i < static_cast<int>(OpKind::host_sync); ++i) all.push_back(static_cast<OpKind>(i));
  cost.kind = read_kind(table, "kind", all);
  if (is_communication(cost.kind)) cost.transport = read_transport(table);
  cost.seconds = table.number("seconds");
  FinerReader::require_seconds(table, "seconds", cost.seconds);
}

void read_gemm(const Table& table, GemmTable& of) {
  of.library = table.text("library");
  of.dtype = read_dtype(table);
  const std::vector<double> seconds = seconds_of(table, "seconds");
  const auto m = column(table, "m", seconds.size()), n = column(table, "n", seconds.size()),
             k = column(table, "k", seconds.size());
  for (std::size_t i = 0; i < seconds.size(); ++i) of.points.push_back({m[i], n[i], k[i], seconds[i]});
}

}  // namespace

std::vector<KindAccuracy> read_accuracy(const Table& table) {
  const std::vector<std::string> kinds = table.texts("kinds");
  const std::vector<std::int64_t> points = table.integers("points");
  const std::vector<double> median = table.numbers("median"), signed_mean = table.numbers("signed"),
                            half_width = table.numbers("half_width");
  for (const std::size_t entries : {points.size(), median.size(), signed_mean.size(), half_width.size()})
    if (entries != kinds.size()) table.fail("kinds", "every list of [accuracy] has an entry for each kind");
  const bool with_assumed = table.flag("with_assumed", false);
  std::vector<KindAccuracy> all;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (points[i] < 1 || points[i] > 1'000'000) table.fail("points", "must be from 1 to 1000000");
    if (!(half_width[i] >= 0 && half_width[i] <= 100)) table.fail("half_width", "must be from 0 to 100");
    all.push_back(
        {kinds[i], static_cast<int>(points[i]), median[i], signed_mean[i], half_width[i], with_assumed});
  }
  return all;
}

FinerTables read_finer_tables(const Table& root, HardwareFaults& faults) {
  FinerTables finer;
  FinerReader reader(root, faults);
  reader.list("form", finer.forms, read_form);
  reader.list("pieces", finer.pieces, read_pieces);
  reader.list("beside", finer.beside, read_beside);
  reader.list("launch", finer.launches, read_launch);
  reader.list("gemm", finer.gemms, read_gemm);
  reader.cards(finer.cards);
  return finer;
}

}  // namespace cplab
