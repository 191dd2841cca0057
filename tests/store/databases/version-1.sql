BEGIN TRANSACTION;
CREATE TABLE tune_launches (
    id INTEGER NOT NULL PRIMARY KEY,
    study_id INTEGER NOT NULL REFERENCES tune_studies (id) ON DELETE CASCADE,
    number INTEGER NOT NULL, purpose VARCHAR(20) NOT NULL, setting TEXT NOT NULL, trial INTEGER,
    folder TEXT NOT NULL, started_at VARCHAR(40) NOT NULL, wall_s FLOAT NOT NULL,
    exit_code INTEGER, failure_kind VARCHAR(40), failure_reason TEXT, log_tail TEXT,
    argv TEXT NOT NULL, env TEXT NOT NULL, machine TEXT NOT NULL, progress TEXT NOT NULL,
    observation TEXT NOT NULL, effects TEXT NOT NULL, UNIQUE (study_id, number)
);
INSERT INTO "tune_launches" VALUES(1,1,1,'search','{"iterator_workers": 1, "omp_threads": 2}',0,'/some/where','2026-01-01T00:00:00+00:00',2.5,0,NULL,NULL,NULL,'["mpirun","train"]','{"OMP_NUM_THREADS":"4"}','{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]}','[[50, 0.75], [100, 1.5]]','{"ranks": []}','[]');
INSERT INTO "tune_launches" VALUES(2,1,2,'search','{"iterator_workers": 2, "omp_threads": 2}',1,'/some/other','2026-01-01T00:00:00+00:00',1.5,0,'stopped early','its log ends at iteration 60','the end','["mpirun","train"]','{"OMP_NUM_THREADS":"4"}','{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]}','[[50, 0.75], [100, 1.5]]','{"ranks": []}','[]');
CREATE TABLE tune_meta (
    id INTEGER NOT NULL PRIMARY KEY, schema_version INTEGER NOT NULL,
    opened_at VARCHAR(40) NOT NULL
);
INSERT INTO "tune_meta" VALUES(1,1,'2026-01-01T00:00:00+00:00');
CREATE TABLE tune_samples (
    launch_id INTEGER NOT NULL REFERENCES tune_launches (id) ON DELETE CASCADE,
    "window" INTEGER NOT NULL, elapsed_s FLOAT NOT NULL, iterations INTEGER NOT NULL,
    PRIMARY KEY (launch_id, "window")
);
INSERT INTO "tune_samples" VALUES(1,0,1.5,100);
CREATE TABLE tune_studies (
    id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(255) NOT NULL UNIQUE,
    state VARCHAR(20) NOT NULL, reason TEXT NOT NULL, spec TEXT NOT NULL, identity TEXT NOT NULL,
    created_at VARCHAR(40) NOT NULL, updated_at VARCHAR(40) NOT NULL,
    forgiven_until INTEGER NOT NULL, best_setting TEXT, best_s FLOAT, baseline_s FLOAT,
    trials INTEGER NOT NULL, launches INTEGER NOT NULL, failures INTEGER NOT NULL
);
INSERT INTO "tune_studies" VALUES(1,'kept','finished','done','{"name": "kept", "command": ["train", "--out", "{out}"], "launcher": {"kind": "openmpi", "mpirun": "/opt/mpi/bin/mpirun", "version": "5.0.11", "libmpi": null, "extra_args": []}, "layout": {"ranks": 2, "hosts": ["localhost"]}, "machine": {"hostname": "node1", "cpu_model": "Some CPU", "logical_cpus": 4, "physical_cores": 4, "affinity_cpus": 4, "quota_cpus": null, "numa_nodes": 1, "memory_bytes": 8589934592, "gpus": []}, "knobs": [{"name": "omp_threads", "domain": {"type": "IntRange", "low": 1, "high": 4}, "route": {"type": "Flag", "option": "-t", "switch": false}, "help": "", "default": null, "changes_numerics": false, "live": false, "gpu_values": [], "why": "", "source": "", "neutral": null, "when": [], "launchers": [], "needs": [], "usual": false}, {"name": "iterator_workers", "domain": {"type": "IntRange", "low": 1, "high": 3}, "route": {"type": "Flag", "option": "-j", "switch": false}, "help": "", "default": null, "changes_numerics": false, "live": false, "gpu_values": [], "why": "", "source": "", "neutral": null, "when": [], "launchers": [], "needs": [], "usual": false}], "fixed": {"items": []}, "job": ["train", "--all"], "objective": {"kind": "logreport", "key": "elapsed_time", "filename": null, "loss_key": "", "statistic": "last", "pattern": "", "unit": "", "maximize": false}, "trials": 8, "warm_ups": 1, "trial_limit_s": null, "stall_limit_s": 120.0, "seed": 0, "left_out": [], "source": "", "folder": "", "interpreter": "", "environment": []}','{"command":["train","--out","{out}"],"baseline":["train","--out","{out}"],"routes":{"omp_threads":"argument -t","iterator_workers":"argument -j"},"folder":"","interpreter":"","ranks":2,"hosts":["localhost"],"mpi":"openmpi 5.0.11","mpirun":"/opt/mpi/bin/mpirun","libmpi":null,"mpirun_args":[],"objective":"logreport elapsed_time in log","hostname":"node1","cpu_model":"Some CPU","cores":4,"affinity":4,"quota":null,"memory_gib":8,"gpus":[],"environment":{}}','2026-01-01T00:00:00+00:00','2026-01-01T00:00:00+00:00',0,'{"iterator_workers": 1, "omp_threads": 2}',1.5,NULL,2,2,1);
CREATE INDEX ix_tune_launches_study_id ON tune_launches (study_id);
COMMIT;
