// The link `nccl` and its communicators in a build without NCCL: they say so.
#include "exec/gpu/nccl_link.hpp"

namespace cplab {

struct NcclLink::State {};

namespace {

[[noreturn]] void fail() {
  throw GpuError("this build has no NCCL (it was made without nccl.h)");
}

}  // namespace

bool have_nccl() {
  return false;
}
bool nccl_is_loaded() {
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
void NcclWorld::make(const std::vector<const Plan*>&, const Id&) {}
void NcclWorld::split(const std::vector<int>&, const Key&) {}
void NcclWorld::require_healthy() const {}
void NcclWorld::abort() {}
NcclLink::NcclLink(const Plan&, GpuRank&, NcclWorld&) {
  fail();
}
NcclLink::~NcclLink() = default;
void NcclLink::connect(const GpuMessages&) {}
void NcclLink::queue(std::uint32_t, const GpuMessages&) {}

}  // namespace cplab
