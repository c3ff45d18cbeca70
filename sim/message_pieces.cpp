// See message_pieces.hpp.
#include "sim/message_pieces.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "derive/pieces.hpp"

namespace cplab {

std::vector<double> call_bytes(std::span<const MessagePart> parts, Transport transport, DType nominal) {
  std::vector<double> calls;
  for (const MessagePart& part : parts) {
    std::vector<std::vector<Piece>> ends{contiguous_pieces(*part.from, *part.source, nominal),
                                         contiguous_pieces(*part.into, *part.target, nominal)};
    cut_alike(ends);
    if (transport == Transport::nccl) {
      for (const Piece& piece : ends[0]) calls.push_back(static_cast<double>(piece.bytes));
    } else {
      for (const StridedPieces& some : strided_pieces(ends[0], ends[1]))
        calls.push_back(static_cast<double>(some.bytes * some.count));
    }
  }
  return calls;
}

double longer_by_s(std::span<const double> calls, Transport transport, double peers, double least_s,
                   const std::function<double(double bytes)>& alone_s) {
  if (calls.size() < 2) return 0;
  if (transport == Transport::copy) return static_cast<double>(calls.size() - 1) * least_s;
  double apart_s = 0;
  for (const double bytes : calls) apart_s += alone_s(peers * bytes);
  const double all = std::accumulate(calls.begin(), calls.end(), 0.0);
  return std::max(0.0, apart_s - alone_s(peers * all));
}

}  // namespace cplab
