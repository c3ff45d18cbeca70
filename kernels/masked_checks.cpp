// The requirements of masked.hpp as code.
#include <string>

#include "kernels/call_checks.hpp"
#include "kernels/masked.hpp"

namespace cplab::kernels {
namespace {

// A view of bias, keep or dbias over these rows of q and k.
void check_form(const View& view, const View& q, const View& k, std::span<const RowRun> columns) {
  check_view(view);
  require(q.heads == 0 || (view.heads > 0 && q.heads % view.heads == 0),
          "masked: heads of a bias or keep mask do not divide the query heads");
  if (columns.empty()) {
    require(view.rows == k.rows && view.width == 1,
            "masked: a bias or keep mask of keys is not one number for each row of k");
    return;
  }
  require(view.rows == q.rows, "masked: a bias or keep mask of pairs has other rows than q");
  for (const RowRun& run : columns)
    require(run.count == 0 || (run.begin >= 0 && run.step >= 0 && run.begin < view.width &&
                               run.begin + (run.count - 1) * run.step < view.width),
            "masked: a column is outside the bias or keep mask");
}

// A bias of positions.
void check_positions(const PairMask& mask, const View& q, const View& k) {
  require(!mask.bias && !mask.keep, "masked: a stored bias or keep mask beside a bias of positions");
  require(mask.slopes.empty() || std::ssize(mask.slopes) == q.heads,
          "masked: there is not one slope for each query head");
  require(mask.slopes.empty() || !mask.table, "masked: slopes and a table");
  std::int64_t rows = 0;
  for (const RowRun& run : mask.columns) {
    require(run.count >= 0, "masked: a run of positions has a negative count");
    rows += run.count;
  }
  require(rows == k.rows + q.rows, "masked: there is not one position for each row of k and q");
  if (!mask.table) return;
  check_view(*mask.table);
  require(mask.table->rows == 1 && mask.table->heads == q.heads,
          "masked: the table is not one row for each query head");
  require((std::ssize(mask.starts) + 1) * (mask.both_ways ? 2 : 1) == mask.table->width,
          "masked: the table has not one column for each bucket");
}

void check_mask(const PairMask& mask, const View& q, const View& k) {
  require(mask.softcap >= 0, "masked: the softcap is negative");
  if (mask.placed()) return check_positions(mask, q, k);
  if (!mask.columns.empty()) {
    std::int64_t keys = 0;
    for (const RowRun& run : mask.columns) {
      require(run.count >= 0, "masked: a run of columns has a negative count");
      keys += run.count;
    }
    require(keys == k.rows, "masked: there is not one column for each row of k");
  }
  if (mask.bias) check_form(*mask.bias, q, k, mask.columns);
  if (mask.keep) check_form(*mask.keep, q, k, mask.columns);
}

}  // namespace

void check_call(const MaskedAttend& call) {
  check_call(call.tile);
  require(!call.tile.max_logit, "masked: there is no max_logit");
  check_mask(call.mask, call.tile.q, call.tile.k);
}

void check_call(const MaskedAttendBackward& call) {
  require(!call.tile.rounded_dq && !call.tile.rounded_dk, "masked: no gradient is rounded");
  require(!call.tile.out, "masked: delta is given, not computed from out");
  check_call(call.tile);
  check_mask(call.mask, call.tile.q, call.tile.k);
  if (call.dtable) {
    check_view(*call.dtable);
    require(call.mask.table.has_value() && same_shape(*call.dtable, *call.mask.table),
            "masked: the table and its gradient differ in shape");
  }
  if (!call.dbias) return;
  require(call.mask.bias.has_value() && same_shape(*call.dbias, *call.mask.bias),
          "masked: dbias and bias differ in shape");
  check_view(*call.dbias);
  require(call.write_dbias != Write::merge, "masked: dbias is stored or added to");
}

void check_call(const SelectKeys& call) {
  check_view(call.bias);
  check_view(call.keep);
  require(same_shape(call.bias, call.keep), "select_keys: bias and keep differ in shape");
  require(call.keys >= 0 && call.top_k >= 0 && call.block >= 0, "select_keys: a count is negative");
  if (call.full)
    require(call.keys <= call.bias.width, "select_keys: more keys than columns");
  else
    require(call.bias.width == 1 && call.bias.rows == call.keys, "select_keys: there is not one bias a key");
}

}  // namespace cplab::kernels
