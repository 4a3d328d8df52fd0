"""Cross-encoders of random weights, small and real."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def make_cross_encoder(folder: Path, *, seed: int) -> None:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyz0123456789-"]
    tokenizer = Tokenizer(models.WordLevel({w: n for n, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    make_tokenizer: Any = PreTrainedTokenizerFast
    make_config: Any = BertConfig
    make_tokenizer(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=256,
    ).save_pretrained(str(folder))
    torch.manual_seed(seed)
    BertForSequenceClassification(
        make_config(
            vocab_size=len(words),
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=256,
            num_labels=1,
        )
    ).save_pretrained(str(folder))
