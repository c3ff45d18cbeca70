"""Points over all families of algorithms, drawn for off_grid.py --draw families.

Sixteen families take turns. Lengths are log-uniform; heads, key heads, masks, placements, links, window, directions and
document lengths are drawn at random, within what the family's algorithms take.
"""
import math

LINEAR = ("lasp_naive", "lasp_cache", "lasp_fuse", "lasp_fuse_parallel", "lasp_blelloch", "lasp_kogge_stone",
          "lasp_all_gather", "lasp_ring_decoupled", "lasp_zeco")
FAMILIES = ("ring", "window", "head size 64", "one GPU", "forward alone", "batch", "all_gather", "all_to_all",
            "head_strided", "packed ring", "packed trade", "linear", "two levels", "hybrid", "linear long", "graph")


def log_uniform(rng, low, high):
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def split(rng, total, parts):
    """`parts` positive lengths that sum to `total`."""
    cuts = sorted(rng.sample(range(1, total), parts - 1))
    return [b - a for a, b in zip([0, *cuts], [*cuts, total])]


def softmax_heads(rng, most=32, even=False):
    """Heads and key heads; even: two ranks can share either."""
    kv_heads = rng.choice([2, 4, 8, 16] if even else [1, 2, 4, 8, 16])
    kv_heads = min(kv_heads, most)
    return kv_heads * rng.randint(max(1, 4 // kv_heads), most // kv_heads), kv_heads


def softmax(rng, tokens, *, most_heads=32, even=False, head_size=128, mask=None):
    heads, kv_heads = softmax_heads(rng, most_heads, even)
    return {"batch": 1, "sequence": tokens, "heads": heads, "kv_heads": kv_heads, "head_size": head_size,
            "dtype": "bf16", "mask": mask or rng.choice(["causal", "causal", "full"]), "direction": "forward+backward"}


def placed(rng, problem, placements=("zigzag", "contiguous", "striped")):
    return "contiguous" if problem["mask"] == "full" else rng.choice(placements)


def packed(rng, problem, parts):
    tokens = problem.pop("sequence")
    problem.pop("batch")
    return {"lengths": split(rng, tokens, parts)} | problem


def linear(rng, family, options):
    low, high = (64, 512) if family == "linear long" else (12, 64)
    problem = {"attention": "linear", "batch": rng.choice([1, 1, 1, 2]),
               "sequence": 256 * log_uniform(rng, 4 * low, 4 * high), "heads": rng.choice([4, 8, 16, 32]),
               "head_size": 128, "dtype": "bf16", "mask": "causal", "slopes": "alibi", "direction": "forward+backward"}
    ranks = rng.choice([1, 2, 2, 2, 2]) if options.gpus > 1 else 1
    return problem, {"ranks": ranks, "algorithm": rng.choice(LINEAR)}, {}


def draw_family(rng, family, options):
    """The sections of one point."""
    if family.startswith("linear"):
        problem, parallel, schedule = linear(rng, family, options)
    else:
        problem, parallel, schedule = draw_softmax(rng, family)
    ranks = min(parallel["ranks"], options.gpus)
    parallel = parallel | {"ranks": ranks}
    transport = rng.choice(["copy", "nccl"]) if ranks > 1 else "copy"
    return {"problem": problem, "parallel": parallel, "schedule": {"transport": transport} | schedule}


def draw_softmax(rng, family):
    problem = softmax(rng, log_uniform(rng, 4000, 96000))
    ranks, algorithm, schedule = 2, "ring", {}
    if family == "window":
        problem["mask"] = "causal"
        problem["window"] = [log_uniform(rng, 256, problem["sequence"] // 2), 0]
    elif family == "head size 64":
        problem["head_size"] = 64
    elif family == "one GPU":
        ranks = 1
        problem["head_size"] = rng.choice([64, 128])
    elif family == "forward alone":
        problem = softmax(rng, log_uniform(rng, 8000, 48000), most_heads=8)
        problem["direction"] = "forward"
        ranks = rng.choice([1, 2])
    elif family == "batch":
        problem = softmax(rng, log_uniform(rng, 2000, 7000))
        problem["batch"] = rng.randint(3, 6)
        ranks, algorithm = rng.choice([(1, "ring"), (2, "ring"), (2, "all_gather")])
    elif family == "all_gather":
        algorithm = "all_gather"
    elif family in ("all_to_all", "graph"):
        problem = softmax(rng, 2 * log_uniform(rng, 2500, 24000), even=True)
        algorithm = "all_to_all" if family == "all_to_all" else rng.choice(["all_to_all", "ring", "all_gather"])
    elif family == "head_strided":
        problem = softmax(rng, log_uniform(rng, 4000, 64000), even=True)
        algorithm = "head_strided"
    elif family == "packed ring":
        problem = packed(rng, softmax(rng, log_uniform(rng, 8000, 64000), mask="causal"), rng.randint(3, 16))
    elif family == "packed trade":
        problem = packed(rng, softmax(rng, log_uniform(rng, 8000, 64000), even=True, mask="causal"), rng.randint(12, 28))
        algorithm = rng.choice(["all_to_all", "all_gather"])
    elif family == "two levels":
        problem = softmax(rng, 2 * log_uniform(rng, 2500, 32000), even=True)
        algorithm, schedule = rng.choice(["hierarchical", "usp"]), {"inner_ranks": rng.choice([1, 2])}
    elif family == "hybrid":
        problem = packed(rng, softmax(rng, log_uniform(rng, 16000, 64000), mask="causal"), rng.randint(6, 20))
        return problem, {"ranks": 2, "algorithm": "ring", "placement": "hybrid"}, {}
    placements = ("contiguous",) if algorithm == "all_to_all" else ("zigzag", "contiguous", "striped")
    return problem, {"ranks": ranks, "algorithm": algorithm, "placement": placed(rng, problem, placements)}, schedule
