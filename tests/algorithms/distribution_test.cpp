// Distributions and what they move, against brute force: token by token and head by head.
#include "algorithms/core/distribution.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "algorithms/core/redistribution.hpp"
#include "tests/algorithms/row_list.hpp"
#include "tests/algorithms/scenarios.hpp"
#include "tests/scenarios/random_distribution.hpp"

using namespace cplab;
using testing::random_distribution;
using testing::RandomDistribution;
using testing::row_list;
using testing::rows_of;
using testing::Token;
using testing::tokens_of;

namespace {

Distribution placed_tokens(const testing::Shape& shape) {
  const Scenario s = testing::without_algorithm(shape);
  return placed(s.problem, Placement(s.problem, s.parallel, s.placement, 0), s.parallel.ranks);
}

// Who gives a token and head to a member that has it afterwards: itself, else the lowest holder; -1: nobody.
int giver_of(const Distribution& from, int receiver, Token token, std::int64_t head) {
  const auto holds = [&](int member) {
    const HeadRange heads = from[member].heads;
    return head >= heads.begin && head < heads.end && rows_of(from[member]).contains(token);
  };
  if (holds(receiver)) return receiver;
  for (int member = 0; member < from.size(); ++member)
    if (holds(member)) return member;
  return -1;
}

// What a member gives and receives, peer by peer, is what the pairs say; whoever was asked about before.
void check_shares(const Redistribution& how, int members) {
  for (int n = 0; n < 2 * members; ++n) {
    const int place = n % 2 == 0 ? n / 2 : members - 1 - n / 2;
    for (const bool gives : {true, false}) {
      std::vector<std::pair<int, Moved>> expected;
      for (int peer = 0; peer < members; ++peer)
        for (const Moved& each : gives ? how.moved(place, peer) : how.moved(peer, place))
          expected.emplace_back(peer, each);
      std::size_t at = 0;
      how.for_each_share(place, gives, [&](int peer, const RangeList& rows, HeadRange heads) {
        REQUIRE(at < expected.size());
        const auto& [of, moved] = expected[at++];
        CHECK(peer == of);
        CHECK(rows == (gives ? moved.from_rows : moved.into_rows));
        CHECK(heads == moved.heads);
      });
      CHECK(at == expected.size());
    }
  }
}

// Every (token, head) of every receiver comes once, from the right giver, and both ends name it alike.
void check_pieces(const Distribution& from, const Distribution& to) {
  const Redistribution how(from, to);
  check_shares(how, to.size());
  for (int receiver = 0; receiver < to.size(); ++receiver) {
    std::map<std::pair<Token, std::int64_t>, int> came;
    const auto there = tokens_of(to[receiver]);
    for (int giver = 0; giver < from.size(); ++giver) {
      const auto here = tokens_of(from[giver]);
      for (const Moved& piece : how.moved(giver, receiver)) {
        const auto from_rows = row_list(piece.from_rows), into_rows = row_list(piece.into_rows);
        REQUIRE(from_rows.size() == into_rows.size());
        REQUIRE(piece.heads.count() > 0);
        for (std::size_t i = 0; i < from_rows.size(); ++i) {
          REQUIRE(here.at(from_rows[i]) == there.at(into_rows[i]));
          for (std::int64_t head = piece.heads.begin; head < piece.heads.end; ++head) {
            const bool first = came.emplace(std::pair(here.at(from_rows[i]), head), giver).second;
            CHECK(first);
          }
        }
      }
    }
    for (const auto& [row, token] : there) {
      for (std::int64_t head = to[receiver].heads.begin; head < to[receiver].heads.end; ++head) {
        const int giver = giver_of(from, receiver, token, head);
        const auto found = came.find({token, head});
        CHECK((found == came.end() ? -1 : found->second) == giver);
        if (found != came.end()) came.erase(found);
      }
    }
    CHECK(came.empty());
  }
}

}  // namespace

TEST_CASE(
    "redistribution: random holders, strides, heads and replicas, each token from whom it should come") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    RandomDistribution wanted;
    wanted.members = 1 + i % 4;
    for (int n = i % 5; n > 0; --n)
      wanted.lengths.push_back(static_cast<std::int64_t>(random() % 3 * (random() % 12)));
    const auto one = [&] {
      wanted.parts_heads = random() % 2 == 0;
      wanted.replicated = random() % 2 == 0;
      wanted.somewhere = random() % 4 != 0;
      wanted.rows_in_order = random() % 2 == 0;
      return random_distribution(wanted, random);
    };
    const Distribution from = one();
    check_pieces(from, one());
  }
}

TEST_CASE("redistribution: of several holders the receiver itself gives, else the lowest") {
  // Member 0 has tokens 0-3, member 1 tokens 2-5, member 2 tokens 2-7. All go everywhere.
  Distribution from, to;
  from.replicated = true;
  for (const auto& [first, count] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 4}, {2, 4}, {2, 6}})
    from.members.push_back({{{0, 0, count, count, first}}, {0, 1}});
  to = with_heads(from, {0, 1});
  for (Holding& member : to.members) member.runs = {{0, 0, 8, 8, 0}};
  const Redistribution how(from, to);
  using Rows = std::vector<RowRange>;
  CHECK(how.moved(0, 0)[0].into_rows == Rows{{0, 4}});
  CHECK(how.moved(1, 0)[0].into_rows == Rows{{4, 2}});  // 2 and 3 it has itself
  CHECK(how.moved(2, 0)[0].into_rows == Rows{{6, 2}});
  CHECK(how.moved(0, 1)[0].into_rows == Rows{{0, 2}});
  CHECK(how.moved(1, 1)[0].into_rows == Rows{{2, 4}});
  CHECK(how.moved(0, 2)[0].into_rows == Rows{{0, 2}});
  CHECK(how.moved(1, 2).empty());
  CHECK(how.moved(2, 2)[0].from_rows == Rows{{0, 6}});
  CHECK(how.kind() == OpKind::exchange);
}

TEST_CASE("redistribution: the kind follows from what moves") {
  for (const char* placement : {"contiguous", "zigzag", "striped"}) {
    const Distribution tokens = placed_tokens(
        {.ranks = 4, .placement = placement, .lengths = {64}, .causal = false, .heads = 8, .kv_heads = 8});
    CHECK(Redistribution(tokens, gathered(tokens)).kind() == OpKind::all_gather);
    const Redistribution all(tokens, gathered(tokens));
    for (const std::int64_t head : {0, 5}) check_shares(all.of_heads({head, head + 2}), tokens.size());
    CHECK(Redistribution(tokens, all_tokens(tokens)).kind() == OpKind::all_gather);
    CHECK(Redistribution(tokens, split_heads(tokens)).kind() == OpKind::all_to_all);
    CHECK(Redistribution(split_heads(tokens), tokens).kind() == OpKind::all_to_all);
    CHECK(Redistribution(tokens, split_heads(tokens)).parts_heads());
    CHECK_FALSE(Redistribution(tokens, gathered(tokens)).parts_heads());
    // A window of 3: from neighbours alone, where neighbours hold neighbouring tokens.
    CHECK((Redistribution(tokens, seen(tokens, tokens, Window{3, 0})).kind() == OpKind::exchange) ==
          (placement != std::string_view("striped")));
  }
  CHECK_THROWS_AS(Redistribution(Distribution{{{}}}, Distribution{{{}, {}}}), std::logic_error);
}

namespace {

// By all pairs of members, share by share.
OpKind kind_of_all_pairs(const Distribution& from, const Distribution& to) {
  const Redistribution how(from, to);
  const auto elements_of = [](const Holding& member) {
    std::int64_t rows = 0;
    for (const TokenRun& run : member.runs) rows += run.rows;
    return rows * member.heads.count();
  };
  bool gather = true;
  for (int giver = 0; giver < from.size(); ++giver) {
    for (int receiver = 0; receiver < to.size(); ++receiver) {
      std::int64_t elements = 0;
      for (const Moved& share : how.moved(giver, receiver))
        elements += static_cast<std::int64_t>(row_list(share.from_rows).size()) * share.heads.count();
      if (elements == 0) return OpKind::exchange;
      gather = gather && elements == elements_of(from[0]) && elements == elements_of(from[giver]);
    }
  }
  return gather ? OpKind::all_gather : OpKind::all_to_all;
}

// The same tokens in lists of their own, so that no two members share one.
Distribution unshared(Distribution of) {
  for (Holding& member : of.members)
    member.runs = std::vector<TokenRun>(member.runs.begin(), member.runs.end());
  return of;
}

}  // namespace

TEST_CASE("redistribution: lists that members share say nothing else than lists of their own") {
  std::mt19937_64 random(2);
  std::map<OpKind, int> kinds;
  const auto check = [&](const Distribution& from, const Distribution& to) {
    const OpKind kind = Redistribution(from, to).kind();
    ++kinds[kind];
    CHECK(kind == kind_of_all_pairs(unshared(from), unshared(to)));
    CHECK(Redistribution(unshared(from), unshared(to)).kind() == kind);
    check_pieces(from, to);
  };
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    RandomDistribution wanted;
    wanted.members = 1 + i % 4;
    wanted.heads = 12;
    for (int n = 1 + i % 3; n > 0; --n) wanted.lengths.push_back(static_cast<std::int64_t>(random() % 24));
    const Distribution from = random_distribution(wanted, random);
    check(from, all_tokens(from));
    check(from, split_heads(from));
    check(split_heads(from), from);
    wanted.parts_heads = random() % 2 == 0;
    wanted.replicated = random() % 2 == 0;
    check(from, random_distribution(wanted, random));
  }
  for (const char* placement : {"contiguous", "zigzag", "striped"}) {
    const Distribution tokens =
        placed_tokens({.ranks = 4, .placement = placement, .lengths = {64, 16}, .heads = 8, .kv_heads = 8});
    check(tokens, all_tokens(tokens));
    check(tokens, split_heads(tokens));
    check(tokens, seen(tokens, tokens, Window{3, 0}));
  }
  for (const OpKind kind : {OpKind::exchange, OpKind::all_to_all, OpKind::all_gather}) CHECK(kinds[kind] > 0);
}

TEST_CASE("gathered, in_sequence_order, all_tokens: every token at every member, in the order they say") {
  for (const char* placement : {"contiguous", "zigzag", "striped"}) {
    for (const int P : {1, 2, 3, 4}) {
      CAPTURE(placement);
      CAPTURE(P);
      const Distribution tokens = placed_tokens(
          {.ranks = P, .placement = placement, .lengths = {13, 0, 5, 24}, .padded_lengths = {14, 0, 9, 24}});
      const Distribution all = gathered(tokens), sorted = in_sequence_order(all), either = all_tokens(tokens);
      std::set<Token> held;
      for (const Holding& member : tokens.members)
        for (const auto& [row, token] : tokens_of(member)) held.insert(token);
      for (const Distribution* d : {&all, &sorted, &either}) {
        REQUIRE(d->size() == P);
        CHECK(d->replicated == (P > 1));
        for (int place = 0; place < P; ++place) {
          const auto rows = rows_of((*d)[place]);
          CHECK(rows.size() == held.size());
          CHECK((*d)[place].rows() == static_cast<std::int64_t>(held.size()));  // no row between
          for (const Token& token : held) CHECK(rows.contains(token));
        }
      }
      // Ranks one after the other; sequence by sequence, and there position by position: what rows say is
      // what sorting says.
      std::int64_t row = 0;
      for (const Holding& member : tokens.members) {
        for (const auto& [at, token] : tokens_of(member)) CHECK(rows_of(all[0]).at(token) == row + at);
        row += member.rows();
      }
      std::int64_t place = 0;
      for (const Token& token : held) CHECK(rows_of(sorted[0]).at(token) == place++);
      for (const TokenRun& run : sorted[0].runs) CHECK(run.stride == 1);
      // Neighbouring runs have become one: a run for each sequence, and one more where its padding begins in
      // the middle of one.
      CHECK(sorted[0].runs.size() <= 6);
    }
  }
}

TEST_CASE("gathered, in_sequence_order: padding stays padding") {
  for (const char* placement : {"contiguous", "zigzag", "striped"}) {
    const testing::Shape shape{
        .ranks = 3, .placement = placement, .lengths = {13, 0, 5}, .padded_lengths = {14, 6, 9}};
    for (const Distribution& d :
         {gathered(placed_tokens(shape)), in_sequence_order(gathered(placed_tokens(shape)))}) {
      for (const TokenRun& run : d[0].runs)
        for (std::int64_t i = 0; i < run.rows; ++i)
          CHECK((i < run.valid) ==
                (run.position + i * run.stride < shape.lengths[static_cast<std::size_t>(run.sequence)]));
    }
  }
}

// By padded lengths, whatever part of them is valid; a placement pads them further to a multiple of its own.
TEST_CASE("S3-7: there and back, every row comes home, for random padded lengths") {
  std::mt19937_64 random(2);
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    testing::Shape shape{
        .ranks = 1 + i % 5, .placement = i % 2 == 0 ? "zigzag" : "striped", .lengths = {}, .heads = 1};
    for (int n = 1 + i % 4; n > 0; --n) {
      shape.lengths.push_back(static_cast<std::int64_t>(random() % 20));
      shape.padded_lengths.push_back(shape.lengths.back() + static_cast<std::int64_t>(random() % 9));
    }
    const Distribution tokens = placed_tokens(shape);
    for (const Distribution& all : {all_tokens(tokens), in_sequence_order(gathered(tokens))}) {
      const Redistribution there(tokens, all);
      for (int place = 0; place < shape.ranks; ++place) {
        std::map<std::int64_t, Token> came;
        for (int giver = 0; giver < shape.ranks; ++giver) {
          for (const Moved& piece : there.moved(giver, place)) {
            const auto from = row_list(piece.from_rows), into = row_list(piece.into_rows);
            for (std::size_t k = 0; k < into.size(); ++k)
              came[into[k]] = tokens_of(tokens[giver]).at(from[k]);
          }
        }
        CHECK(came == tokens_of(all[place]));
      }
    }
  }
}

TEST_CASE("split_heads: all tokens, an equal share of heads each, key heads as these need them") {
  const Distribution tokens =
      placed_tokens({.ranks = 4, .placement = "zigzag", .lengths = {16}, .heads = 12, .kv_heads = 3});
  const Distribution split = split_heads(tokens);
  Problem p;
  p.heads = 12;
  p.kv_heads = 3;
  const Distribution keys = key_heads(p, split);
  CHECK(keys.replicated);
  for (int place = 0; place < 4; ++place) {
    CHECK(split[place].heads == HeadRange{3 * place, 3 * place + 3});
    CHECK(split[place].rows() == 16);
    // Brute force: query head h reads key head h / 4.
    CHECK(keys[place].heads == HeadRange{3 * place / 4, (3 * place + 2) / 4 + 1});
  }
  CHECK_FALSE(split.replicated);
  CHECK_FALSE(key_heads(p, tokens).replicated);  // the same heads everywhere, but of other tokens
  p.kv_heads = 12;
  CHECK_FALSE(key_heads(p, split).replicated);
  Distribution three = tokens;
  three.members.resize(3);
  CHECK_NOTHROW(split_heads(three));
  for (Holding& member : three.members) member.heads = {0, 8};
  CHECK_THROWS_AS(split_heads(three), std::logic_error);
}

TEST_CASE("key_heads and equal_parts, head by head") {
  for (std::int64_t G = 1; G <= 6; ++G) {
    for (std::int64_t ratio = 1; ratio <= 4; ++ratio) {
      Problem p;
      p.kv_heads = G;
      p.heads = G * ratio;
      for (std::int64_t a = 0; a < p.heads; ++a)
        for (std::int64_t b = a + 1; b <= p.heads; ++b)
          CHECK(key_heads(p, HeadRange{a, b}) == HeadRange{a / ratio, (b - 1) / ratio + 1});
    }
  }
  CHECK(equal_parts({2, 9}, 3) == std::vector<HeadRange>{{2, 5}, {5, 8}, {8, 9}});
  CHECK(equal_parts({0, 4}, 4) == std::vector<HeadRange>{{0, 4}});
  CHECK(HeadRange{0, 4}.common({2, 9}) == HeadRange{2, 4});
  CHECK(HeadRange{0, 2}.common({2, 9}) == HeadRange{});
}

TEST_CASE("seen: of the keys of all those that a query of the member sees, by brute force") {
  for (const char* placement : {"contiguous", "zigzag", "striped"}) {
    for (const int P : {1, 2, 3, 4}) {
      for (const Window w :
           {Window{-1, -1}, Window{-1, 0}, Window{3, 0}, Window{0, 0}, Window{2, 5}, Window{-1, 2}}) {
        for (const std::vector<std::int64_t>& lengths :
             std::vector<std::vector<std::int64_t>>{{24}, {17, 0, 1, 30}, {0}, {2, 2, 2}}) {
          CAPTURE(placement);
          CAPTURE(P);
          CAPTURE(w.left);
          CAPTURE(w.right);
          const Distribution tokens = placed_tokens({.ranks = P, .placement = placement, .lengths = lengths});
          const Distribution result = seen(tokens, tokens, w);
          for (int place = 0; place < P; ++place) {
            std::set<Token> wanted;
            for (const Holding& holder : tokens.members) {
              for (const TokenRun& run : holder.runs) {
                for (std::int64_t k = 0; k < run.valid; ++k) {
                  bool some = false;
                  for (const TokenRun& own : tokens[place].runs)
                    for (std::int64_t q = 0; q < own.valid && own.sequence == run.sequence; ++q) {
                      const std::int64_t ahead =
                          run.position + k * run.stride - own.position - q * own.stride;
                      some |= (w.left < 0 || ahead >= -w.left) && (w.right < 0 || ahead <= w.right);
                    }
                  if (some) wanted.insert({run.sequence, run.position + k * run.stride});
                }
              }
            }
            std::set<Token> got;
            for (const auto& [token, row] : rows_of(result[place])) got.insert(token);
            CHECK(got == wanted);
            CHECK(result[place].rows() == static_cast<std::int64_t>(wanted.size()));
          }
          check_pieces(tokens, result);
        }
      }
    }
  }
}
