// A tile on all cores of the machine. Which thread does which unit, and when, must not change a result.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "kernels/kernels.hpp"

namespace cplab::kernels {

// Threads for `units` units that multiply `products` pairs of numbers in all: one where that is so little
// that starting others would take as long.
int worker_count(std::int64_t units, double products);

// Calls work(worker) on `workers` threads, with 0 <= worker < workers; each is to take units until there are
// none. Throws what `work` throws.
void on_workers(int workers, const std::function<void(int worker)>& work);

// How many products a tile of attention needs at most: a key and a value for each pair in its segments'
// boxes.
double products_of(const View& q, const View& v, std::span<const Segment> segments);

}  // namespace cplab::kernels
