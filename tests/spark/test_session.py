"""A session starts, and its workers are this Python."""


def test_workers_import_the_package(spark):
    def where(_):
        import penstock

        return penstock.__version__

    import penstock

    assert spark.sparkContext.parallelize([1], 1).map(where).collect() == [penstock.__version__]
