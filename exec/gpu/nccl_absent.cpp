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
void nccl_require(int, const char*, int, NcclComm) {
  fail();
}
NcclWorld::Id NcclWorld::make_id() {
  fail();
}
NcclWorld::NcclWorld(const std::vector<const Plan*>&, int rank, const Id&) : rank_(rank) {
  fail();
}
NcclWorld::~NcclWorld() = default;
void NcclWorld::require_healthy() const {}
void NcclWorld::abort() {}
NcclLink::NcclLink(const Plan&, GpuRank&, NcclWorld&) {
  fail();
}
NcclLink::~NcclLink() = default;
void NcclLink::connect(const GpuMessages&) {}
void NcclLink::queue(std::uint32_t, const GpuMessages&) {}

}  // namespace cplab
