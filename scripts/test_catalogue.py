#!/usr/bin/env python3
"""Tests of catalogue.py on a table of a few rows. Needs no network: python3 scripts/test_catalogue.py"""

import datetime
import unittest

import catalogue

TODAY = datetime.date(2030, 6, 1)


def openai(**row):
    return {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 128_000,
            "max_output_tokens": 16_384, "input_cost_per_token": 2.5e-06,
            "output_cost_per_token": 1e-05, **row}


def written(table):
    found = catalogue.models(table, TODAY)
    return catalogue.render(found, "a table", TODAY)


class Catalogue(unittest.TestCase):
    def test_a_row_becomes_an_entry(self):
        row = openai(cache_read_input_token_cost=1.25e-06, deprecation_date="2030-07-01")
        self.assertIn(
            '[models."openai/gpt-x"]\nwindow = 128_000\nmax_output = 16_384\n'
            "price = { input = 2.50, output = 10.00, cache_read = 1.25, cache_write = 2.50 }\n"
            'retires = "2030-07-01"\n',
            written({"gpt-x": row}),
        )
        self.assertIn('\ngenerated = "2030-06-01"\n', written({}))

    def test_what_is_no_chat_model_is_left_out(self):
        table = {
            "gpt-speech": openai(supported_output_modalities=["audio"]),
            "ft:gpt-x": openai(),
            "embed": openai(mode="embedding"),
            "gpt-live": openai(supported_endpoints=["/v1/realtime"]),
            "of-another": openai(litellm_provider="azure"),
            "gone": openai(deprecation_date="2029-05-01"),
        }
        self.assertNotIn("[models", written(table))

    def test_a_model_is_there_without_its_window(self):
        row = openai(max_input_tokens=None, max_output_tokens=None, deprecation_date="2030-07-01")
        self.assertIn(
            '[models."openai/gpt-w"]\nprice = { input = 2.50, output = 10.00 }\n'
            'retires = "2030-07-01"\n', written({"gpt-w": row}))

    def test_windows_that_are_told_without_the_output(self):
        self.assertIn("window = 400_000\n", written(
            {"gpt-y": openai(max_input_tokens=272_000, max_output_tokens=128_000)}))

    def test_reasoning_breakpoints_and_long_prompts(self):
        text = written({"gpt-z": openai(
            supports_reasoning=True, supports_prompt_cache_breakpoint=True,
            cache_creation_input_token_cost=3e-06, cache_read_input_token_cost=1e-07,
            input_cost_per_token_above_272k_tokens=5e-06,
            output_cost_per_token_above_272k_tokens=1.5e-05)})
        self.assertIn(
            "reasoning = true\nbreakpoints = true\ncache_seconds = 1_800\n"
            'dialect = "openai-responses"\n'
            "price = { input = 2.50, output = 10.00, cache_read = 0.10, cache_write = 3.00 }\n"
            "long_prompt = { over = 272_000, input = 5.00, output = 15.00 }\n", text)

    def test_nothing_is_no_price(self):
        text = written({"gpt-0": openai(input_cost_per_token=0, output_cost_per_token=0.0)})
        self.assertNotIn("price", text)

    def test_a_dated_name_is_there_where_it_differs(self):
        table = {
            "gpt-x": openai(),
            "gpt-x-2029-01-01": openai(deprecation_date="2030-07-01", max_output_tokens=4_096),
            "gpt-x-2030-01-01": openai(deprecation_date="2030-12-01"),
        }
        text = written(table)
        self.assertIn('"openai/gpt-x-2029-01-01"', text)
        self.assertNotIn('"openai/gpt-x-2030-01-01"', text)
        # The undated name goes with the last of them.
        undated = text.split('[models."openai/gpt-x"]')[1].split("[models")[0]
        self.assertIn('retires = "2030-12-01"', undated)

    def test_a_name_with_its_provider_wins(self):
        row = {**openai(), "litellm_provider": "gemini"}
        text = written({"gemini-a": {**row, "max_input_tokens": 1}, "gemini/gemini-a": row})
        self.assertEqual(text.count('[models."gemini/gemini-a"]\nwindow = 128_000'), 1)
        self.assertEqual(text.count("[models"), 1)

    def test_sampling_tells_who_takes_no_temperature(self):
        row = {**openai(supports_reasoning=True), "litellm_provider": "anthropic"}
        self.assertNotIn("reasoning", written({"claude-a": row}))
        self.assertIn("reasoning = true", written({"claude-a": {**row, "supports_sampling_params": False}}))


if __name__ == "__main__":
    unittest.main()
