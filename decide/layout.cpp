// Names of modes and of what is recomputed, and a layout in words; see layout.hpp.
#include "decide/layout.hpp"

namespace cplab {

std::string_view name(Mode mode) {
  switch (mode) {
    case Mode::training: return "training";
    case Mode::prefill: return "prefill";
    case Mode::decode: return "decode";
  }
  return "training";
}

std::string_view name(Recompute recompute) {
  switch (recompute) {
    case Recompute::none: return "none";
    case Recompute::selective: return "selective";
    case Recompute::full: return "full";
  }
  return "none";
}

bool same_degrees(const ModelLayout& a, const ModelLayout& b) {
  return a.tp == b.tp && a.cp == b.cp && a.pp == b.pp && a.dp == b.dp && a.ep == b.ep && a.zero == b.zero &&
         a.micro_batch == b.micro_batch;
}

std::string describe(const ModelLayout& layout) {
  std::string text = "tp" + std::to_string(layout.tp) + " cp" + std::to_string(layout.cp) + " pp" +
                     std::to_string(layout.pp) + " dp" + std::to_string(layout.dp);
  const auto say = [&](const char* what, std::int64_t count) {
    if (count != 1) text += " " + (what + std::to_string(count));
  };
  say("ep", layout.ep);
  say("etp", layout.etp);
  say("vpp", layout.pipeline_chunks);
  say("mbs", layout.micro_batch);
  if (layout.zero != 1) text += " zero" + std::to_string(layout.zero);
  if (layout.recompute != Recompute::none) text += " " + std::string(name(layout.recompute));
  if (layout.loss_chunks > 1) text += " loss/" + std::to_string(layout.loss_chunks);
  if (layout.offload_checkpoints) text += " offload-checkpoints";
  if (layout.offload_optimizer) text += " offload-optimizer";
  return text;
}

}  // namespace cplab
