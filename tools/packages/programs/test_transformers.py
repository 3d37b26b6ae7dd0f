"""Small models of the package transformers: forward, training, generation, files.

The package's own tests of models lie in a repository of a gigabyte; these are in their manner.
Their names are those of the package's configurations, and sizes are set by what a class takes.
"""

from __future__ import annotations

import inspect

import pytest
import torch
import transformers

SIZES = {
    "vocab_size": 60,
    "hidden_size": 32,
    "d_model": 32,
    "n_embd": 32,
    "dim": 32,
    "embedding_size": 32,
    "intermediate_size": 48,
    "hidden_dim": 48,
    "d_ff": 48,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "num_hidden_layers": 2,
    "n_layer": 2,
    "n_layers": 2,
    "num_layers": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_attention_heads": 4,
    "n_head": 4,
    "n_heads": 4,
    "num_heads": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "d_kv": 8,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "image_size": 16,
    "patch_size": 4,
    "num_experts": 4,
    "num_local_experts": 4,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
CAUSAL = (
    "GPT2 GPTNeoX OPT Llama Mistral Mixtral Qwen2 Qwen3 Gemma Gemma2 Phi Phi3 Falcon Bloom Cohere"
    " Olmo StableLm Starcoder2 Mpt Granite"
).split()
ENCODERS = (
    "Bert Roberta DistilBert Albert Electra MobileBert ModernBert DebertaV2 Longformer"
).split()
PAIRS = "T5 Bart MBart Pegasus Marian".split()
IMAGES = "ViT Dinov2 ConvNext ResNet".split()
MORE = {
    "Phi3": {"pad_token_id": 0},
    "ConvNext": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
    "ResNet": {"hidden_sizes": [8, 16], "depths": [1, 1], "embedding_size": 8},
    "Longformer": {"attention_window": 4},
    "MobileBert": {"intra_bottleneck_size": 32, "true_hidden_size": 32},
    "Albert": {"embedding_size": 16},
    "T5": {"decoder_start_token_id": 0},
}


def configuration(name, **more):
    kind = getattr(transformers, f"{name}Config")
    known = set()
    for base in kind.__mro__:
        known |= {*getattr(base, "__annotations__", {}), *getattr(base, "attribute_map", {})}
        if "__init__" in vars(base):
            known |= set(inspect.signature(base.__init__).parameters)
    given = {key: value for key, value in SIZES.items() if key in known}
    return kind(**{**given, **MORE.get(name, {}), **more})


def made(name, task, **more):
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(False)
    auto = getattr(transformers, f"AutoModelFor{task}")
    return auto.from_config(configuration(name), **more).eval()


def words(rows=2, length=10):
    torch.manual_seed(1)
    return torch.randint(3, 60, (rows, length))


def fitted(model, **batch):
    """The losses of a few steps on one batch."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(6):
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", CAUSAL)
def test_causal_forward(name):
    model, ids = made(name, "CausalLM"), words()
    with torch.no_grad():
        logits = model(ids).logits
        again = model(ids, use_cache=False, output_hidden_states=True)
    assert logits.shape == (2, 10, 60) and torch.isfinite(logits).all()
    torch.testing.assert_close(again.logits, logits, rtol=1e-4, atol=1e-4)
    other = ids.clone()
    other[:, -1] = 5
    with torch.no_grad():
        torch.testing.assert_close(
            model(other).logits[:, :-1], logits[:, :-1], rtol=1e-3, atol=1e-4
        )


@pytest.mark.parametrize("name", CAUSAL)
def test_causal_training(name):
    ids = words()
    losses = fitted(made(name, "CausalLM"), input_ids=ids, labels=ids)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("how", ["greedy", "sample", "beams"])
@pytest.mark.parametrize("name", CAUSAL)
def test_causal_generation(name, how):
    model, ids = made(name, "CausalLM"), words(length=4)
    options = {
        "greedy": {"do_sample": False},
        "sample": {"do_sample": True, "top_k": 10, "top_p": 0.9, "temperature": 0.8},
        "beams": {"num_beams": 3, "do_sample": False},
    }[how]
    mask = torch.ones_like(ids)
    found = model.generate(ids, attention_mask=mask, max_new_tokens=5, **options)
    assert found.shape[0] == 2 and 5 <= found.shape[1] <= 9
    assert torch.equal(found[:, :4], ids)
    if how == "greedy":
        slow = model.generate(
            ids, attention_mask=mask, max_new_tokens=5, use_cache=False, **options
        )
        assert torch.equal(found, slow)


@pytest.mark.parametrize("name", CAUSAL[:10])
def test_causal_padding(name):
    model, ids = made(name, "CausalLM"), words()
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    with torch.no_grad():
        padded = model(ids, attention_mask=mask).logits
    assert torch.isfinite(padded[0, 3:]).all()


@pytest.mark.parametrize("name", [*CAUSAL[:9], *ENCODERS[:3]])
def test_attention_is_the_same_by_either_way(name):
    task = "CausalLM" if name in CAUSAL else "MaskedLM"
    eager = made(name, task, attn_implementation="eager")
    fast = made(name, task, attn_implementation="sdpa")
    fast.load_state_dict(eager.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(
            fast(words()).logits, eager(words()).logits, rtol=1e-3, atol=1e-4
        )


@pytest.mark.parametrize("name", [*CAUSAL[:8], *ENCODERS[:4], *PAIRS[:2]])
def test_files(name, tmp_path):
    task = "CausalLM" if name in CAUSAL else "MaskedLM" if name in ENCODERS else "Seq2SeqLM"
    model = made(name, task)
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} >= {"config.json", "model.safetensors"}
    mine, theirs = model.state_dict(), again.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[key], theirs[key]) for key in mine)
    half = type(model).from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("name", CAUSAL[:6])
def test_gradient_checkpointing(name):
    ids = words()
    plain, sparing = made(name, "CausalLM").train(), made(name, "CausalLM").train()
    for module in [*plain.modules(), *sparing.modules()]:
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    sparing.load_state_dict(plain.state_dict())
    sparing.gradient_checkpointing_enable({"use_reentrant": False})
    for model in (plain, sparing):
        model(ids, labels=ids).loss.backward()
    for a, b in zip(plain.parameters(), sparing.parameters(), strict=True):
        if a.grad is not None:
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ENCODERS)
def test_masked_words(name):
    ids = words(length=12)
    model = made(name, "MaskedLM")
    with torch.no_grad():
        logits = model(ids, attention_mask=torch.ones_like(ids)).logits
    assert logits.shape == (2, 12, 60) and torch.isfinite(logits).all()
    losses = fitted(model, input_ids=ids, labels=ids)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("task", ["SequenceClassification", "TokenClassification"])
@pytest.mark.parametrize("name", ENCODERS[:6])
def test_classes(name, task):
    ids = words(length=12)
    labels = torch.tensor([0, 1]) if task[0] == "S" else ids % 2
    losses = fitted(made(name, task), input_ids=ids, labels=labels)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name):
    model, ids = made(name, "Seq2SeqLM"), words()
    losses = fitted(model, input_ids=ids, labels=ids[:, :6].contiguous())
    assert losses[-1] < losses[0]
    model.eval()
    assert model.generate(ids, max_new_tokens=4, do_sample=False).shape[0] == 2
    assert model.generate(ids, max_new_tokens=4, num_beams=2).shape[0] == 2


@pytest.mark.parametrize("name", IMAGES)
def test_images(name):
    torch.manual_seed(2)
    pixels = torch.randn(2, 3, 16, 16) if name != "ResNet" else torch.randn(2, 3, 32, 32)
    model = made(name, "ImageClassification")
    with torch.no_grad():
        assert model(pixels).logits.shape == (2, 2)
    losses = fitted(model, pixel_values=pixels, labels=torch.tensor([0, 1]))
    assert losses[-1] < losses[0]


def test_trainer(tmp_path):
    rows = [{"input_ids": row, "labels": row} for row in words(rows=16)]
    options = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=6,
        per_device_train_batch_size=4,
        report_to=[],
        use_cpu=True,
        logging_steps=1,
        save_steps=3,
        learning_rate=3e-3,
    )
    trainer = transformers.Trainer(
        model=made("GPT2", "CausalLM"), args=options, train_dataset=rows, eval_dataset=rows
    )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0]
    assert (tmp_path / "checkpoint-6").is_dir() and "eval_loss" in trainer.evaluate()
