// Numbered tasks on several processes. Processes, not threads: what a task leaves behind (an engine that can
// be made once, caches that are not shared, a crash, an end for lack of memory) is the process's own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cplab {

struct WorkerCalls {
  std::function<void()> begin;                           // in each process, before its first task
  std::function<std::string(std::int64_t number)> work;  // in a process; what it returns comes to `done`
  std::function<void(std::int64_t, std::string)> done;   // here, in the order in which tasks end
  std::function<void(std::int64_t, std::string)> lost;   // here: the process ended in that task, and why
  std::function<void()> waiting;                         // here, five times a second while no task ends
};

// Does all tasks of all groups on so many processes, and returns when they are done. Tasks of one group go to
// one process, one after the other, while there are groups that nobody has begun. A process that ends in a
// task is replaced. What `done`, `lost` and `waiting` throw ends all processes and comes out here. Throws
// std::runtime_error if a process cannot be made.
void work_in_processes(std::vector<std::vector<std::int64_t>> groups, int processes,
                       const WorkerCalls& calls);

}  // namespace cplab
