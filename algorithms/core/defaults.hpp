// What plans take where nobody has chosen and a machine decides what is best. This is the only file of
// algorithms/ with numbers that were found on a machine; an algorithm's own file states its paper, and asks
// here. For each default there is the rule, its number and what it rests on: a record of scenarios/measured/,
// figures on a page of docs/, or "no record" where nothing is kept that could be read again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/problem.hpp"

namespace cplab {

struct OptionInfo;
struct Plan;

// A default that a plan has: of an option of [schedule], or of a choice for which there is no option.
struct TakenDefault {
  std::string choice;  // "own_kv", "dq"
  OptionValue value;
  std::string rule;  // which value is taken when, in words
};

namespace defaults {

// The option with the mark that its default stands here, and with the rule for it in words. default_rule, if
// the option has one, is left as it is: `list` prints that one, `show` this.
OptionInfo by_machine(OptionInfo);
// The rule of an option of that key in words.
std::string_view rule_of(std::string_view option);

// What the plan has of these defaults, in the order of the options, but of options that are set in `asked`,
// the schedule as it was before resolve().
std::vector<TakenDefault> taken(const Schedule& asked, const Plan&);

// ---- Rings of two ranks, whose backward follows at once.
// The attention kernel merges the second of two partial results into the first.
bool ring_merges_in_kernel(std::int64_t ranks);
// The rows of a rank are so many that the backward of two ranks reads its own K and V where they are, and
// that the kernel adds dK and dV to what has come, or computes them for half of the key heads at a time.
bool ring_saves_slots(std::int64_t ranks, std::int64_t rows);
// It adds them rather than that.
bool ring_adds_in_kernel(std::int64_t heads, std::int64_t kv_heads);
// Of how many key heads a tile computes dK and dV at a time where it does not.
std::int64_t ring_tile_heads(std::int64_t kv_heads);
// In how many parts rows travel if kernels add gradients to what has come.
std::int64_t ring_parts();
// Where cuts between such parts may lie within a run of tokens: at multiples of so many rows.
std::int64_t cut_rows();
// Rows of so many runs travel as they are; of more, the rows between them travel as well.
bool travel_apart(std::size_t runs);

// ---- Rotations: does it pay to send only rows that are needed, where that takes `needed` bytes and all of
// them `whole`?
bool needed_rows_pay(double needed, double whole);

// ---- Gradients of attention.
// Tiles that store dq round it, rather than a cast behind them: of sequences of so many tokens at most.
bool tiles_round_dq(std::int64_t longest_sequence);
// A tile that stores dk and dv of so many keys, all heads together, has room to sum them before it rounds
// them, where several query heads share a key head.
bool tiles_sum_dkv(std::int64_t keys);

// ---- Messages.
// Of how many contiguous pieces a message may be, before a copy packs it.
std::int64_t unpacked_pieces();
// Microseconds by which an attention kernel starts after what goes over NCCL beside it.
std::int64_t head_start();

// ---- Two levels: the most ranks that trade heads for tokens.
std::int64_t most_inner_ranks();

// ---- Linear attention.
// Rows of a chunk, of a rank that has `pieces` of sequences, the longest of `longest` tokens.
std::int64_t chunk_rows(std::int64_t longest, std::int64_t pieces, std::int64_t heads,
                        std::int64_t value_size);
// Slices of a state that follow each other through the chain of ZeCO.
std::int64_t state_slices(std::int64_t head_size);

}  // namespace defaults
}  // namespace cplab
