// The parts of a measurement on GPUs; each adds to `into`. They throw Error; if one thread fails while others
// are inside NCCL, which nobody will answer, the process ends with exit code 3 after 20 s.
#pragma once

#include "calibrate/machine.hpp"

namespace cplab::measure {

struct AttentionGrid {
  std::int64_t head_size = 128;
  bool fine = false;  // the points between and beyond those of the coarse one
};
constexpr const char* no_copies = "messages by copy engines: a GPU cannot reach the memory of another";
enum class MessageKinds : std::uint8_t { exchanges, collectives, all };

void measure_host(const Options& options, Measurement& into);                                     // all
void measure_copies(const Options& options, Measurement& into);                                   // GPU 0
void measure_attention(const Options& options, const AttentionGrid& grid, Measurement& into);     // GPU 0
void measure_linear(const Options& options, std::int64_t value_size, Measurement& into);          // GPU 0
void measure_messages(const Options& options, int ranks, MessageKinds kinds, Measurement& into);  // the first
void measure_forms(const Options& options, std::int64_t head_size, Measurement& into);            // GPU 0
void measure_copies_in_pieces(const Options& options, Measurement& into);                         // GPU 0
void measure_exchanges_in_pieces(const Options& options, Measurement& into);                      // all
void measure_exchanges_beside(const Options& options, Measurement& into);                         // all
void measure_launches(const Options& options, Measurement& into);                                 // all
void measure_gemms(const Options& options, Measurement& into);                                    // GPU 0
void measure_cards(const Options& options, Measurement& into);                                    // each
void measure_interference(const Options& options, Measurement& into);                             // all

}  // namespace cplab::measure
