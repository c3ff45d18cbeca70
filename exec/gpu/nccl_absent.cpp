// The link `nccl` in a build without NCCL: it says so.
#include "exec/gpu/nccl_link.hpp"

namespace cplab {

struct NcclLink::State {};

namespace {

[[noreturn]] void fail() {
  throw GpuError("this build has no NCCL; schedule.transport=copy runs without it");
}

}  // namespace

bool have_nccl() {
  return false;
}
std::string nccl_version() {
  return {};
}
NcclLink::WorldId NcclLink::make_id() {
  fail();
}
NcclLink::NcclLink(const Plan&, GpuRank&, const WorldId&) {
  fail();
}
NcclLink::~NcclLink() = default;
void NcclLink::connect(const GpuMessages&) {}
void NcclLink::queue(std::uint32_t, const GpuMessages&) {}
void NcclLink::require_healthy() const {}
void NcclLink::abort() {}

}  // namespace cplab
