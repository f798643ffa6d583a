"""The SQLAlchemy dialect: tables in and out, reflected and asked, and pandas over it."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

START = datetime.datetime(2024, 1, 1)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    made = sa.create_engine(f"tsdb:///{tmp_path}/db")
    yield made
    made.dispose()


@pytest.fixture
def cpu(engine: sa.Engine) -> sa.Table:
    table = sa.Table(
        "cpu", sa.MetaData(), sa.Column("time", sa.DateTime), sa.Column("host", sa.String, info={"role": "tag"}),
        sa.Column("usage", sa.Float), sa.Column("n", sa.BigInteger), sa.Column("up", sa.Boolean), sa.Column("raw", sa.LargeBinary),
        sa.Column("owner", sa.Text, info={"role": "attribute"}),
    )  # fmt: skip
    table.metadata.create_all(engine)
    with engine.begin() as connection:
        rows = [{"time": START + datetime.timedelta(hours=i), "host": f"h{i % 3}", "usage": i / 2, "n": i} for i in range(10)]
        connection.execute(table.insert(), rows)
    return table


def test_tables_are_made_with_roles(engine: sa.Engine, cpu: sa.Table) -> None:
    with engine.connect() as connection:
        assert connection.exec_driver_sql("DESCRIBE cpu").fetchall() == [
            ("time", "TIMESTAMP", "TIME"), ("host", "VARCHAR", "TAG"), ("usage", "DOUBLE", "FIELD"), ("n", "BIGINT", "FIELD"),
            ("up", "BOOLEAN", "FIELD"), ("raw", "BLOB", "FIELD"), ("owner", "VARCHAR", "ATTRIBUTE"),
        ]  # fmt: skip
    cpu.drop(engine)
    assert not sa.inspect(engine).has_table("cpu")
    with pytest.raises(sa.exc.CompileError, match="no column of type"):
        sa.Table("bad", sa.MetaData(), sa.Column("time", sa.DateTime), sa.Column("x", sa.Numeric)).create(engine)


def test_reflection(engine: sa.Engine, cpu: sa.Table) -> None:
    inspector = sa.inspect(engine)
    assert inspector.get_table_names() == ["cpu"]
    assert inspector.has_table("cpu")
    assert not inspector.has_table("other")
    assert inspector.get_pk_constraint("cpu")["constrained_columns"] == ["host", "time"]
    reflected = sa.Table("cpu", sa.MetaData(), autoload_with=engine)
    assert list(reflected.columns.keys()) == list(cpu.columns.keys())
    kinds = [sa.DateTime, sa.String, sa.Double, sa.BigInteger, sa.Boolean, sa.LargeBinary, sa.String]
    for column, kind in zip(reflected.columns, kinds, strict=True):
        assert isinstance(column.type, kind)
    reflected.to_metadata(sa.MetaData(), name="copy").create(engine)
    with engine.connect() as connection:
        made = [connection.exec_driver_sql(f"DESCRIBE {name}").fetchall() for name in ("cpu", "copy")]
    assert made[0] == made[1]
    with pytest.raises(sa.exc.NoSuchTableError):
        sa.Table("other", sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE all_types (time TIMESTAMP_NS TIME, a INT32, b FLOAT, c DATE, d VECTOR(2), e TIMESTAMP_S)"
        )
        described = sa.inspect(connection).get_columns("all_types")
    assert [str(column["type"]) for column in described] == ["TIMESTAMP", "INTEGER", "REAL", "DATE", "ARRAY", "TIMESTAMP"]


def test_selects(engine: sa.Engine, cpu: sa.Table) -> None:
    with engine.connect() as connection:
        newest = sa.select(cpu.c.n, cpu.c.host).where(cpu.c.host.in_(["h0", "h1"])).order_by(cpu.c.time.desc()).limit(2).offset(1)
        assert connection.execute(newest).fetchall() == [(7, "h1"), (6, "h0")]
        assert connection.execute(sa.select(cpu.c.n).order_by(cpu.c.n).offset(8)).fetchall() == [(8,), (9,)]
        grouped = sa.select(cpu.c.host, sa.func.max(cpu.c.usage)).group_by(cpu.c.host).having(sa.func.count() > 3)
        assert connection.execute(grouped).fetchall() == [("h0", 4.5)]
        other = cpu.alias("other")
        joined = sa.select(sa.func.count()).select_from(cpu.join(other, cpu.c.n == other.c.n + 1))
        assert connection.execute(joined).scalar() == 9
        assert connection.execute(sa.text("SELECT n FROM cpu WHERE time = :t"), {"t": START}).scalar() == 0
        assert connection.execute(cpu.delete().where(cpu.c.host == "h0")).rowcount == 4
        assert connection.execute(cpu.update().values(owner="me")).rowcount == 2
        assert connection.execute(sa.select(cpu.c.owner).distinct()).fetchall() == [("me",)]
        with pytest.raises(sa.exc.ProgrammingError, match="no table 'cpx'"):
            connection.execute(sa.text("SELECT * FROM cpx"))


class _Base(DeclarativeBase):
    pass


class _Reading(_Base):
    __tablename__ = "reading"
    time: Mapped[datetime.datetime] = mapped_column(primary_key=True)
    sensor: Mapped[str] = mapped_column(primary_key=True, info={"role": "TAG"})
    value: Mapped[float]


def test_mapped_classes(engine: sa.Engine) -> None:
    _Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all(_Reading(time=START + datetime.timedelta(minutes=i), sensor="s", value=i) for i in range(5))
        session.commit()
        newest = session.scalars(sa.select(_Reading).order_by(_Reading.time.desc()).limit(1)).one()
        assert (newest.sensor, newest.value) == ("s", 4.0)


def test_pandas(engine: sa.Engine, cpu: sa.Table) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = pd.read_sql(sa.select(cpu.c.time, cpu.c.host, cpu.c.n).order_by(cpu.c.n), engine)
        assert frame["n"].tolist() == list(range(10))
        assert frame["time"].dtype.kind == "M"
        assert pd.read_sql("SELECT count(*) AS c FROM cpu WHERE host = ?", engine, params=("h1",))["c"].tolist() == [3]
        assert pd.read_sql_table("cpu", engine)["n"].sum() == 45
        more = pd.DataFrame({"time": pd.date_range("2025-01-01", periods=1_000, freq="s"), "host": "new", "usage": 1.5})
        assert more.to_sql("cpu", engine, if_exists="append", index=False) == 1_000
        assert pd.read_sql("SELECT count(*) AS c FROM cpu", engine)["c"].tolist() == [1_010]
        more.to_sql("made", engine, index=False)
        more.head(3).to_sql("made", engine, index=False, if_exists="replace")
        assert len(pd.read_sql("made", engine)) == 3


@pytest.mark.parametrize("if_exists", ["fail", "replace"])
def test_a_frame_in_a_new_table_keeps_all_of_its_rows(engine: sa.Engine, cpu: sa.Table, if_exists: str) -> None:
    frame = pd.DataFrame({"time": [START] * 3, "host": ["a", "b", "b"], "usage": [1.0, 2.0, 3.0]})
    if if_exists == "replace":
        frame.head(1).to_sql("made", engine, index=False)
    frame.to_sql("made", engine, index=False, if_exists=if_exists)  # type: ignore[arg-type]
    frame.to_sql("made", engine, index=False, if_exists="append")
    assert sorted(pd.read_sql("made", engine)["usage"]) == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]


def test_a_frame_with_its_index(engine: sa.Engine) -> None:
    frame = pd.DataFrame({"usage": [1.0, 2.0]}, index=pd.DatetimeIndex([START, START], name="time"))
    assert frame.to_sql("by_time", engine) == 2
    assert frame.reset_index().to_sql("numbered", engine) == 2
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT * FROM by_time ORDER BY usage").fetchall() == [(START, 1.0), (START, 2.0)]
        assert connection.exec_driver_sql('SELECT "index", usage FROM numbered ORDER BY 1').fetchall() == [(0, 1.0), (1, 2.0)]


def test_indexes_are_not_made(engine: sa.Engine) -> None:
    table = sa.Table("t", sa.MetaData(), sa.Column("time", sa.DateTime), sa.Column("n", sa.Integer, index=True))
    table.create(engine)
    (index,) = table.indexes
    index.drop(engine)
    assert sa.inspect(engine).get_indexes("t") == []
    index.create(engine)


def test_modes_of_tables(engine: sa.Engine) -> None:
    for name, more, mode in (("a", {}, "append"), ("b", {"tsdb_mode": "table"}, "table"), ("c", {"tsdb_mode": "append"}, "append")):
        sa.Table(name, sa.MetaData(), sa.Column("time", sa.DateTime), sa.Column("n", sa.Integer), **more).create(engine)
        reflected = sa.Table(name, sa.MetaData(), autoload_with=engine)
        reflected.to_metadata(sa.MetaData(), name=f"{name}2").create(engine)
        with engine.connect() as connection:
            made = [connection.exec_driver_sql(f"SHOW CREATE TABLE {each}").scalar_one() for each in (name, f"{name}2")]
        assert [("mode = 'append'" in text) for text in made] == [mode == "append"] * 2


def test_urls(tmp_path: Path, engine: sa.Engine, cpu: sa.Table) -> None:
    engine.dispose()
    reading = sa.create_engine(f"tsdb:///{tmp_path}/db?mode=r&threads=1")
    with reading.connect() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(cpu)).scalar() == 10
        assert connection.exec_driver_sql("SHOW threads").fetchone()[1] == "1"  # type: ignore[index]
        with pytest.raises(sa.exc.OperationalError, match="opened for reading"):
            connection.execute(cpu.insert(), {"time": START, "host": "x"})
    reading.dispose()
    with pytest.raises(sa.exc.ArgumentError, match="names a directory"):
        sa.create_engine("tsdb://").connect()
