// Messages between processes as bytes: what is taken, what is refused, from whom, and that no bytes can do
// more than be refused.
#include "exec/processes/frame.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/contains.hpp"

namespace cplab::wire {
namespace {

using testing::contains;

constexpr Kind kinds[] = {Kind::hello,   Kind::refuse,  Kind::joined, Kind::gather,
                          Kind::barrier, Kind::failure, Kind::leave};
constexpr Sender senders[] = {Sender::stranger, Sender::host, Sender::member};

Frame frame(Kind kind, std::size_t payload, int rank = 1, std::uint32_t detail = 0) {
  Frame out{kind, rank, detail, 7, std::make_shared<Bytes>(payload)};
  for (std::size_t i = 0; i < payload; ++i) (*out.payload)[i] = static_cast<std::byte>(i * 31 + 5);
  return out;
}

// The refusal's text; "" if the bytes are taken.
std::string frame_refusal(std::span<const std::byte> bytes, Sender sender) {
  try {
    decode(bytes, sender);
  } catch (const NotOurs& error) {
    return error.what();
  }
  return "";
}

std::string frame_refusal(const Header& header, Sender sender) {
  return frame_refusal(std::as_bytes(std::span(&header, 1)), sender);
}

void check_same(const Frame& a, const Frame& b) {
  CHECK(a.kind == b.kind);
  CHECK(a.rank == b.rank);
  CHECK(a.detail == b.detail);
  CHECK(a.sequence == b.sequence);
  CHECK(*a.payload == *b.payload);
}

TEST_CASE("each sender may say some kinds, each up to its size, and nothing else") {
  for (const Kind kind : kinds) {
    for (const Sender sender : senders) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(static_cast<int>(sender));
      const auto most = max_payload(kind, sender);
      if (!most) {
        CHECK(contains(frame_refusal(encode(frame(kind, 0)), sender), "which is not due"));
        continue;
      }
      const std::size_t size = static_cast<std::size_t>(std::min<std::uint64_t>(*most, 300'000));
      const auto back = decode(encode(frame(kind, size)), sender);
      REQUIRE(back.size() == 1);
      check_same(back[0], frame(kind, size));
      Header header = header_of(frame(kind, 0));
      header.bytes = *most + 1;
      CHECK(contains(frame_refusal(header, sender), std::to_string(*most) + " are the most"));
      header.bytes = ~std::uint64_t{0};
      CHECK(contains(frame_refusal(header, sender), "are the most"));
    }
  }
  // The whole of what somebody without the token can say.
  CHECK(max_payload(Kind::hello, Sender::stranger) == max_greeting_bytes);
  for (const Kind kind : kinds)
    if (kind != Kind::hello) CHECK_FALSE(max_payload(kind, Sender::stranger));
}

TEST_CASE("fields that no process of ours writes are refused as soon as they are there") {
  const Header good = header_of(frame(Kind::barrier, 0));
  CHECK(frame_refusal(good, Sender::member).empty());
  const auto with = [&](auto&& change) {
    Header header = good;
    change(header);
    return frame_refusal(header, Sender::member);
  };
  CHECK(contains(with([](Header& h) { h.magic ^= 1; }), "no message of cplab"));
  CHECK(contains(with([](Header& h) { h.version = 1; }), "another version of cplab (protocol 1, here 2)"));
  CHECK(contains(with([](Header& h) { h.kind = static_cast<Kind>(7); }), "unknown kind 7"));
  CHECK(contains(with([](Header& h) { h.kind = static_cast<Kind>(0xFFFFFFFF); }), "unknown kind 4294967295"));
  CHECK(contains(with([](Header& h) { h.rank = -1; }), "of rank -1"));
  CHECK(contains(with([](Header& h) { h.rank = max_ranks; }), "of rank 16777216"));
  CHECK(contains(with([](Header& h) {
                   h.kind = Kind::failure;
                   h.detail = 3;
                 }),
                 "unknown cause 3"));

  const char http[] = "GET / HTTP/1.1\r\n";
  CHECK(contains(frame_refusal(std::as_bytes(std::span(http, 8)), Sender::stranger), "no message of cplab"));
  CHECK(
      frame_refusal(std::as_bytes(std::span(http, 7)), Sender::stranger).empty());  // may become anything yet
  const Bytes old = [] {
    Header header = header_of(Frame());
    header.version = 1;
    Bytes bytes(12);
    std::memcpy(bytes.data(), &header, bytes.size());
    return bytes;
  }();
  CHECK(contains(frame_refusal(old, Sender::stranger), "another version"));
}

TEST_CASE("frames come out the same in pieces of any size") {
  Bytes bytes = encode(frame(Kind::gather, 100'000));
  for (const Frame& next : {frame(Kind::barrier, 0), frame(Kind::failure, 77, 2, 1), frame(Kind::leave, 0)}) {
    const Bytes more = encode(next);
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{40}, std::size_t{4096}}) {
    Decoder decoder(Sender::member);
    std::vector<Frame> frames;
    std::size_t at = 0;
    while (at < bytes.size()) {
      const auto space = decoder.space();
      REQUIRE_FALSE(space.empty());
      const std::size_t count = std::min({piece, space.size(), bytes.size() - at});
      std::memcpy(space.data(), bytes.data() + at, count);
      decoder.advance(count, frames);
      at += count;
    }
    REQUIRE(frames.size() == 4);
    check_same(frames[0], frame(Kind::gather, 100'000));
    check_same(frames[1], frame(Kind::barrier, 0));
    check_same(frames[2], frame(Kind::failure, 77, 2, 1));
    check_same(frames[3], frame(Kind::leave, 0));
  }
}

TEST_CASE("who announces much and sends little makes nobody allocate much") {
  Header header = header_of(frame(Kind::gather, 0));
  header.bytes = max_gather_bytes;  // 64 GiB
  Decoder decoder(Sender::member);
  std::vector<Frame> frames;
  std::memcpy(decoder.space().data(), &header, sizeof(header));
  decoder.advance(sizeof(header), frames);
  std::size_t sent = 0;
  while (sent < std::size_t{3} << 20) {
    const std::size_t count = std::min<std::size_t>(decoder.space().size(), 10'000);
    decoder.advance(count, frames);
    sent += count;
    CHECK(decoder.held_bytes() <= std::max<std::size_t>(2 * sent, 1 << 16));
  }
  CHECK(frames.empty());

  Decoder small(Sender::member, 1'000'000);  // what the host could hold
  std::memcpy(small.space().data(), &header, sizeof(header));
  CHECK_THROWS_WITH_AS(small.advance(sizeof(header), frames),
                       "a contribution of 68719476736 bytes; this host could hold 1000000", NotOurs);
}

TEST_CASE("rank 0 may speak as a member from the word joined on, in the same breath") {
  Bytes bytes = encode(frame(Kind::joined, 0));
  const Bytes gather = encode(frame(Kind::gather, 50'000));
  CHECK(contains(frame_refusal(gather, Sender::host), "not due"));
  bytes.insert(bytes.end(), gather.begin(), gather.end());
  CHECK(decode(bytes, Sender::host).size() == 2);
}

TEST_CASE("a greeting says rank, world, token and job, and nothing that does not fit") {
  const Greeting said{3, 8, "0123456789abcdef", "job/7"};
  const auto frames = decode(encode(greeting_frame(said)), Sender::stranger);
  REQUIRE(frames.size() == 1);
  const Greeting heard = greeting_of(frames[0]);
  CHECK(heard.rank == 3);
  CHECK(heard.world == 8);
  CHECK(heard.token == said.token);
  CHECK(heard.job == said.job);
  const Greeting most{1, 2, std::string(max_token_bytes, 't'), std::string(max_job_bytes, 'j')};
  CHECK(greeting_of(decode(encode(greeting_frame(most)), Sender::stranger).at(0)).job == most.job);

  const auto refused = [](const std::string& payload) {
    CHECK_THROWS_AS(greeting_of({Kind::hello, 1, 0, 2, bytes_of(payload)}), NotOurs);
  };
  refused("");
  refused("abc");
  refused(std::string("\x05\0\0\0four", 8));
  refused(std::string("\xff\xff\xff\xff", 4));
  refused(std::string("\x01\x01\0\0", 4) + std::string(257, 't'));  // a token of 257 bytes
  refused(std::string("\0\0\0\0", 4) + std::string(max_job_bytes + 1, 'j'));
  CHECK_THROWS_AS(greeting_of(frame(Kind::barrier, 0)), NotOurs);
}

TEST_CASE("a secret is the same only if every byte is") {
  CHECK(same_secret("", ""));
  CHECK(same_secret("0123456789abcdef", "0123456789abcdef"));
  for (const char* other : {"", "0", "0123456789abcde", "0123456789abcdeg", "1123456789abcdef",
                            "0123456789abcdef0", "0123456789abcdef0123456789abcdef"})
    CHECK_FALSE(same_secret(other, "0123456789abcdef"));
  CHECK_FALSE(same_secret("x", ""));
}

TEST_CASE("what a peer says reaches a terminal without control characters") {
  const Frame said{Kind::refuse, 0, 0, 0, bytes_of("a\033[2Jb\rc\nd\x7f")};
  CHECK(text_of(said) == "a?[2Jb?c\nd?");
}

TEST_CASE("10,000 random changes to valid messages are decoded or refused") {
  std::uint64_t state = 7;
  const auto random = [&](std::uint64_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>((state >> 33) % below);
  };
  int taken = 0, refused = 0;
  for (int n = 0; n < 10'000; ++n) {
    const Sender sender = senders[random(3)];
    Bytes bytes;
    for (std::size_t count = 1 + random(3); count > 0; --count) {
      const Kind kind = kinds[random(7)];
      const Bytes one =
          kind == Kind::hello
              ? encode(greeting_frame({static_cast<int>(random(9)), random(9), std::string(random(40), 't'),
                                       std::string(random(40), 'j')}))
              : encode(frame(kind, max_payload(kind, Sender::member).value_or(1) > 0 ? random(3000) : 0));
      bytes.insert(bytes.end(), one.begin(), one.end());
    }
    for (std::size_t changes = random(4); changes > 0; --changes)
      bytes[random(2) == 0 ? random(std::min<std::size_t>(bytes.size(), 40)) : random(bytes.size())] =
          static_cast<std::byte>(random(256));
    if (random(4) == 0) bytes.resize(random(bytes.size() + 1));
    try {
      const std::vector<Frame> frames = decode(bytes, sender);
      ++taken;
      std::size_t total = 0;
      for (const Frame& each : frames) {
        const auto most = max_payload(each.kind, sender == Sender::stranger ? sender : Sender::member);
        const auto before = max_payload(each.kind, sender);
        CHECK((most || before));
        CHECK(each.payload->size() <= std::max(most.value_or(0), before.value_or(0)));
        total += sizeof(Header) + each.payload->size();
        if (each.kind == Kind::hello) {
          try {
            const Greeting heard = greeting_of(each);
            CHECK(heard.token.size() + heard.job.size() <= max_greeting_bytes);
          } catch (const NotOurs&) {
          }
        }
      }
      CHECK(total <= bytes.size());
    } catch (const NotOurs& error) {
      ++refused;
      CHECK(std::string(error.what()).size() > 10);
    }
  }
  CHECK(taken > 500);
  CHECK(refused > 500);
}

}  // namespace
}  // namespace cplab::wire
