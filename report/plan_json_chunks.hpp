// Chunks of operations of linear attention in plan files; for plan_json_reader.cpp.
#pragma once

#include <vector>

#include "plan/plan.hpp"
#include "report/json_reader.hpp"

namespace cplab {

// The list under "chunks". Numbers of states and rows are in the ranges that a plan may have; whether they
// lie in the operation's views is for plan/structure. Throws JsonFileError.
std::vector<Chunk> read_chunk_list(const JsonNode& list);

// The list under "segments".
std::vector<Segment> read_segment_list(const JsonNode& list);

// Columns of a bias as [begin, count, step].
std::vector<RowRange> read_column_list(const JsonNode& list);

// Of an operation that is not one of linear attention: fails where it has what only those have.
void refuse_chunks(const JsonNode& operation, OpKind kind);

}  // namespace cplab
