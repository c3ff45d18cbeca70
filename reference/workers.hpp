// Work on all cores of the machine. What is computed must not depend on who does which unit, and when.
#pragma once

#include <cstdint>
#include <functional>

namespace cplab::reference {

// How many threads for_each_unit uses: one for each core, no more than units.
int worker_count(std::int64_t units);

// Calls work(unit, worker) for 0 <= unit < units, each once, with worker < worker_count(units): a worker does
// one unit at a time, which are handed out in order. `done`, if there is one, hears how many are; one call at
// a time. Throws what `work` throws; units may then be left out.
void for_each_unit(std::int64_t units, const std::function<void(std::int64_t unit, int worker)>& work,
                   const std::function<void(std::int64_t units_done)>& done = {});

}  // namespace cplab::reference
