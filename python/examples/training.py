"""Two layers of a decoder, trained on shards of a sequence: attention is a plan, everything else is PyTorch.

    torchrun --nproc-per-node 2 python/examples/training.py

Each rank has its tokens of each sample; gradients of the weights are summed over the ranks.
"""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as functional

import cplab.torch

B, S, H, D, LAYERS, WORDS = 2, 4096, 8, 128, 2, 512


class Layer(torch.nn.Module):
    def __init__(self, plan):
        super().__init__()
        self.plan, width = plan, H * D
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(functional.layer_norm(x, x.shape[-1:])).unflatten(-1, (3 * H, D)).chunk(3, dim=2)
        x = x + self.out(cplab.torch.attention(q, k, v, plan=self.plan).flatten(2))
        return x + self.down(functional.gelu(self.up(functional.layer_norm(x, x.shape[-1:]))))


def main():
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.set_default_device("cuda")
    torch.manual_seed(1)  # the same weights and words on every rank
    plan = cplab.torch.prepare({
        "problem": {"batch": B, "sequence": S, "heads": H, "kv_heads": H, "head_size": D, "dtype": "bf16",
                    "mask": "causal", "direction": "forward+backward"},
        "parallel": {"ranks": dist.get_world_size(), "algorithm": "ring", "placement": "zigzag"}})
    words = torch.randint(WORDS, (B, S + 1))
    inputs, targets = plan.shard(words[:, :-1]), plan.shard(words[:, 1:])
    model = torch.nn.Sequential(torch.nn.Embedding(WORDS, H * D), *[Layer(plan) for _ in range(LAYERS)],
                                torch.nn.Linear(H * D, WORDS)).to(torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(5):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs).flatten(0, 1).float(), targets.flatten(), reduction="sum") / (B * S)
        loss.backward()
        for weight in model.parameters():
            dist.all_reduce(weight.grad)
        optimizer.step()
        dist.all_reduce(loss.detach())
        if dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
