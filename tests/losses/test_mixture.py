"""The evidence bound of the mixture and the term on pairs, against literal formulas and torch's own."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Independent, Normal, kl_divergence

from spherepair.losses.pair_losses import weighted_mean
from spherepair.losses.soft_assignments import mixture_divergence, mixture_pair_loss, row_error

N, K, D = 5, 3, 2


def parts(seed: int = 0) -> dict[str, torch.Tensor]:
    """Draws, means, log-variances, logits, centers and log-variances of the components, in float64."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {"z": (N, D), "mean": (N, D), "v": (N, D), "logits": (N, K), "centers": (K, D), "log_s": (K, D)}
    return {k: torch.randn(s, generator=generator, dtype=torch.float64) for k, s in shapes.items()}


ARGUMENTS = ("z", "mean", "v", "centers", "log_s")


def both(p: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and divergences of all rows."""
    precisions = (-p["log_s"]).exp()
    return mixture_divergence(p["z"], p["mean"], p["v"], centers=p["centers"], precisions=precisions)


def divergence(p: dict[str, torch.Tensor], weight: torch.Tensor | None = None) -> torch.Tensor:
    return weighted_mean(both(p)[1], weight)


def literal_logits(p: dict[str, torch.Tensor]) -> torch.Tensor:
    """Log-densities of the draws under the components, by torch's own."""
    components = Independent(Normal(p["centers"], (p["log_s"] / 2).exp()), 1)
    return components.log_prob(p["z"][:, None]) + D / 2 * math.log(2 * math.pi)


def literal_divergence(p: dict[str, torch.Tensor]) -> torch.Tensor:
    """Row by row and cluster by cluster: E[log q(z|x) + log q(c|x) - log p(z|c) - log p(c)]."""
    total = torch.zeros((), dtype=torch.float64)
    for i in range(N):
        g = literal_logits(p)[i].softmax(dim=0)
        for c in range(K):
            answer = Independent(Normal(p["mean"][i], (p["v"][i] / 2).exp()), 1)
            component = Independent(Normal(p["centers"][c], (p["log_s"][c] / 2).exp()), 1)
            of_cluster = g[c].log() - math.log(1 / K)
            total = total + g[c] * (kl_divergence(answer, component) + of_cluster)
    return total / N


def test_divergence_and_its_gradients_are_those_of_the_literal_formula():
    ours, theirs = ({k: parts()[k].requires_grad_() for k in ARGUMENTS} for _ in range(2))
    found, expected = divergence(ours), literal_divergence(theirs)
    found.backward()
    expected.backward()
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)
    for name, value in ours.items():
        torch.testing.assert_close(value.grad, theirs[name].grad, rtol=1e-9, atol=1e-12)


def test_logits_are_the_log_densities_of_the_draws():
    torch.testing.assert_close(both(parts())[0], literal_logits(parts()), rtol=1e-12, atol=1e-12)


def test_gradients_match_finite_differences_through_both_results():
    inputs = {k: parts(1)[k].requires_grad_() for k in ARGUMENTS}
    weight = torch.tensor([1.0, 0.0, 2.0, 1.0, 0.5], dtype=torch.float64)

    def mixed(*values: torch.Tensor) -> torch.Tensor:
        logits, divergences = both(dict(zip(inputs, values, strict=True)))
        return (weight * divergences).sum() + logits.softmax(dim=1)[:, 0].sum()

    assert torch.autograd.gradcheck(mixed, tuple(inputs.values()))


@pytest.mark.parametrize("seed", range(5))
def test_divergence_is_never_negative(seed):
    assert divergence(parts(seed)).item() >= 0


def test_divergence_is_zero_where_the_answer_is_the_prior():
    p = parts()
    p["mean"], p["v"] = p["centers"][:1].expand(N, D), p["log_s"][:1].expand(N, D)
    p["centers"], p["log_s"] = p["centers"][:1].expand(K, D), p["log_s"][:1].expand(K, D)
    assert divergence(p).item() == pytest.approx(0.0, abs=1e-12)


def test_padding_rows_take_no_part_in_the_divergence():
    p = parts()
    weight = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    cut = {k: v[:2] if len(v) == N else v for k, v in p.items()}
    assert divergence(p, weight).item() == pytest.approx(divergence(cut).item(), rel=1e-12)


@pytest.mark.parametrize("size", [0.0, 1e2, 1e8])
def test_sure_responsibilities_have_finite_gradients(size):
    p = {k: v.float() for k, v in parts().items()}
    p["z"] = (size * p["z"].sign()).requires_grad_()
    divergence(p).backward()
    assert torch.isfinite(p["z"].grad).all()


def literal_pair_loss(a: torch.Tensor, b: torch.Tensor, links: list[bool]) -> torch.Tensor:
    """-W_ab Σ_c g_ac g_bc with W = ±1, one pair after the other."""
    total = torch.zeros((), dtype=torch.float64)
    for i, link in enumerate(links):
        g, h = a[i].softmax(dim=0), b[i].softmax(dim=0)
        total = total - (1 if link else -1) * sum(g[c] * h[c] for c in range(K))
    return total / len(links)


def test_pair_loss_and_its_gradients_are_those_of_the_literal_formula():
    links = [True, False, True, True, False]
    p, other = parts(2), parts(3)
    left, right = p["logits"].requires_grad_(), other["logits"].requires_grad_()
    found = mixture_pair_loss(left, right, torch.tensor(links))
    expected = literal_pair_loss(left, right, links)
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)
    grads = torch.autograd.grad(found, (left, right)), torch.autograd.grad(expected, (left, right))
    torch.testing.assert_close(*grads, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("is_must_link", [True, False])
@pytest.mark.parametrize("right", [[1e6, 0.0], [0.0, 1e6]])
def test_sure_pairs_have_finite_gradients(right, is_must_link):
    left = torch.tensor([[1e6, 0.0]], requires_grad=True)
    mixture_pair_loss(left, torch.tensor([right]), torch.tensor([is_must_link])).backward()
    assert torch.isfinite(left.grad).all()


def test_padding_pairs_take_no_part():
    left, right = parts(2)["logits"], parts(3)["logits"]
    links = torch.tensor([True, False, True, True, False])
    weight = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    padded = mixture_pair_loss(left, right, links, weight=weight)
    assert padded.item() == pytest.approx(mixture_pair_loss(left[:2], right[:2], links[:2]).item())


@pytest.mark.parametrize("is_bernoulli", [True, False])
def test_row_error_is_summed_over_features_and_averaged_over_rows(is_bernoulli):
    generator = torch.Generator().manual_seed(0)
    decoded = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    target = torch.rand(3, 4, generator=generator, dtype=torch.float64)
    total = 0.0
    for row, wanted in zip(decoded.tolist(), target.tolist(), strict=True):
        for value, x in zip(row, wanted, strict=True):
            p = 1 / (1 + math.exp(-value))
            total += -(x * math.log(p) + (1 - x) * math.log(1 - p)) if is_bernoulli else (x - value) ** 2
    found = row_error(decoded, target, is_bernoulli=is_bernoulli)
    assert found.item() == pytest.approx(total / 3, rel=1e-9)


@pytest.mark.parametrize("is_bernoulli", [True, False])
def test_row_error_is_finite_far_out_and_in_float32(is_bernoulli):
    decoded = torch.tensor([[1e6, -1e6]], dtype=torch.bfloat16, requires_grad=True)
    error = row_error(decoded, torch.tensor([[0.0, 1.0]]), is_bernoulli=is_bernoulli)
    error.backward()
    assert error.dtype == torch.float32
    assert torch.isfinite(error)
    assert torch.isfinite(decoded.grad).all()
