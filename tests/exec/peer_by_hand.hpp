// The other side of a connection, by hand: for tests of what a process does with peers that misbehave. All
// traffic is on the loopback interface.
#pragma once

#include <string>
#include <vector>

#include "exec/processes/launch.hpp"
#include "exec/processes/wire.hpp"

namespace cplab::by_hand {

// Of the launches that with_token makes, as is the job "job".
constexpr const char* job_token = "0123456789abcdef";
Launch with_token(int rank, int world, int port, const std::string& secret = job_token);

// A connection to whoever listens at the port, for which it waits 5 s.
wire::Socket knock(int port);
void say(const wire::Socket& socket, const wire::Bytes& bytes);
wire::Bytes hello(const wire::Greeting& greeting);
// What the other side says until it closes. Throws std::logic_error if it does not within 15 s.
std::vector<wire::Frame> hear(wire::Connection& connection);
// Until rank 0 has named `world` ranks that have joined, one's own included.
void wait_until_joined(wire::Connection& connection, int world);

}  // namespace cplab::by_hand
