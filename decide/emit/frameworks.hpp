// The emitters, one function for each framework's way of being told.
#pragma once

#include "decide/emit/asked.hpp"

namespace cplab::emitting {

std::string megatron(const Request&);
std::string torchtitan(const Request&);
std::string verl(const Request&);      // its FSDP engine where a layout fits it, else its Megatron engine
std::string ms_swift(const Request&);  // `swift sft` where a layout fits it, else `megatron sft`
std::string deepspeed(const Request&);
std::string vllm(const Request&);
std::string sglang(const Request&);

// What Megatron's core is told, under the names of Output::framework() (Megatron-LM itself, or what wraps
// it).
void megatron_core(Output&, const Request&);

// ZeRO, recompute and the like, of which a server knows nothing, as comments.
void say_training_only(Output&, const Request&);

}  // namespace cplab::emitting
