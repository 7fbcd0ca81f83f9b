"""Every sentence of the threat model in SECURITY.md names tests, and they exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
API, FUZZ = "tests/app/test_api.py", "tests/fuzz/test_fuzzing.py"
FILES, ALTERED = "tests/files/test_untrusted.py", "tests/estimators/test_altered_models.py"
SAVING, ROUTES = "tests/estimators/test_saving.py", "tests/fuzz/test_routes.py"

#: The beginning of each sentence, and the tests that hold it.
TESTS = {
    "It is data": [
        "tests/files/test_data_is_data.py::test_what_a_file_says_is_neither_done_nor_opened",
    ],
    "A damaged or hostile one": [
        f"{FILES}::test_a_sparse_matrix_that_points_outside_is_refused",
        f"{FUZZ}::test_altered_files_give_a_result_or_an_error_of_ours",
        f"{API}::test_bad_uploads_are_one_sentence",
    ],
    "It cannot take memory": [
        f"{FILES}::test_what_unpacks_to_too_much_is_refused_while_it_is_unpacked",
        f"{FILES}::test_parquet_and_zip_bombs_are_refused_before_they_are_read",
        f"{FILES}::test_too_many_columns_are_counted_before_they_are_read",
        f"{FILES}::test_short_lines_that_take_far_more_memory_than_they_are_long_are_counted",
        "tests/files/test_parquet_files.py::"
        "test_a_dictionary_that_stays_one_in_memory_counts_as_often_as_it_is_copied",
        "tests/files/test_parquet_files.py::test_a_long_text_that_stands_in_every_row_is_refused",
        "tests/files/test_parquet_files.py::test_rows_of_a_part_are_counted_before_they_are_read",
    ],
    "What an error repeats": [f"{FILES}::test_what_is_quoted_from_a_file_is_short"],
    "It can be wrong": [f"{ALTERED}::test_who_can_write_a_model_decides_what_it_says"],
    "It cannot run code": [
        f"{SAVING}::test_a_damaged_model_is_refused_and_nothing_executed",
        f"{SAVING}::test_pickled_weights_are_not_executed_even_with_a_right_digest",
    ],
    "It downloads nothing": [
        "tests/encoders/test_image.py::test_a_network_of_timm_is_downloaded_by_fit_alone",
        "tests/encoders/test_image.py::test_a_network_of_torchvision_is_downloaded_by_fit_alone",
        "tests/encoders/test_text.py::test_a_model_by_name_is_looked_for_on_this_machine_first",
        "tests/encoders/test_text.py::test_a_saved_model_runs_no_code_of_a_folder_that_it_names",
    ],
    "Accidents are noticed": [
        f"{ALTERED}::test_a_checkpoint_with_any_flipped_bit_is_refused",
        f"{ALTERED}::test_every_field_of_the_description_is_checked",
        f"{ALTERED}::test_tensors_that_cannot_be_are_refused",
        "tests/encoders/test_altered_encoders.py::test_an_attribute_that_cannot_be_is_refused",
    ],
    "Two writers": [
        f"{ALTERED}::test_readers_of_a_model_that_is_saved_again_and_again_never_fail",
        "tests/files/test_atomic_write.py::test_a_folder_is_exchanged_in_one_step",
        f"{SAVING}::test_a_model_whose_save_was_killed_between_the_last_steps_loads",
    ],
    "A damaged one is refused": [
        "tests/app/test_database.py::test_a_damaged_project_is_refused_with_a_sentence_that_names_it",
        "tests/app/test_damaged_logs.py::test_an_altered_log_is_a_sentence_and_stays_as_it_is",
    ],
    "It does not keep": [
        "tests/app/test_database.py::test_a_damaged_project_stands_beside_the_others_in_the_list"
    ],
    "Without the token": [
        f"{ROUTES}::test_strangers_get_nothing_from_any_route",
        f"{API}::test_a_password_lets_people_in",
        f"{API}::test_a_proxy_says_who_it_is",
    ],
    "No request, whatever": [f"{ROUTES}::test_replies_are_as_described"],
    "No request reads": [
        f"{API}::test_only_ids_of_projects_reach_the_disk",
        f"{ROUTES}::test_no_request_writes_outside_of_the_projects",
        f"{API}::test_a_page_file_outside_of_the_page_is_not_served",
    ],
    "What it leaves behind": [
        f"{API}::test_formulas_and_markup_are_harmless_in_exports",
        f"{API}::test_every_reply_forbids_foreign_scripts",
    ],
    "A mistake of ours": [
        "tests/cli/test_app.py::test_fault_of_ours_is_one_sentence_and_its_details_are_in_a_file"
    ],
}


def test_every_sentence_of_the_threat_model_names_its_tests() -> None:
    model = (ROOT / "SECURITY.md").read_text(encoding="utf-8").split("## Threat model", 1)[1]
    sentences = re.findall(r"^- (.+)$", model, flags=re.MULTILINE)
    for sentence in sentences:
        assert sum(sentence.startswith(start) for start in TESTS) == 1, sentence
    assert len(sentences) == len(TESTS)


@pytest.mark.parametrize("test", sorted({test for tests in TESTS.values() for test in tests}))
def test_the_tests_of_the_threat_model_exist(test: str) -> None:
    file, name = test.split("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_all_licenses_are_on_the_list() -> None:
    script = str(ROOT / ".ci" / "supply_chain.py")
    done = subprocess.run([sys.executable, script, "licenses"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, [line for line in done.stdout.splitlines() if "NOT ON" in line]
    bill = subprocess.run([sys.executable, script, "sbom"], capture_output=True, text=True, check=True)
    assert '"bomFormat": "CycloneDX"' in bill.stdout
    assert "pkg:pypi/numpy@" in bill.stdout
