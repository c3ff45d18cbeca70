// All-gather attention in which latents travel: see latent_gather.cpp.
#pragma once

#include "algorithms/core/builder.hpp"

namespace cplab {

// Algorithm::build of all_gather with travels = "latent".
void build_latent_gather(Builder&);

// Of all_gather: that, or where K and V travel `build`.
template <void (*build)(Builder&)>
void build_what_travels(Builder& b) {
  b.scenario().schedule.is_word("travels", "latent") ? build_latent_gather(b) : build(b);
}

}  // namespace cplab
