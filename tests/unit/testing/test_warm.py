"""The server of warm processes stays out of what tests look at."""

from tests.warm import fresh_folder


def test_the_server_stays_out_of_a_place_for_temporary_files_that_belongs_to_one_test(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = fresh_folder()
    folder.rmdir()
    assert not folder.is_relative_to(tmp_path)
