BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('v3.2.0.a');
CREATE TABLE studies (
	study_id INTEGER NOT NULL, 
	study_name VARCHAR(512) NOT NULL, 
	PRIMARY KEY (study_id)
);
INSERT INTO "studies" VALUES(1,'kept');
CREATE TABLE study_directions (
	study_direction_id INTEGER NOT NULL, 
	direction VARCHAR(8) NOT NULL, 
	study_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	PRIMARY KEY (study_direction_id), 
	UNIQUE (study_id, objective), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_directions" VALUES(1,'MINIMIZE',1,0);
CREATE TABLE study_system_attributes (
	study_system_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_system_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_system_attributes" VALUES(1,1,'study:metric_names','["seconds"]');
CREATE TABLE study_user_attributes (
	study_user_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_user_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_user_attributes" VALUES(1,1,'tuner:space','"{\"omp_threads\": \"{\\\"name\\\": \\\"IntDistribution\\\", \\\"attributes\\\": {\\\"log\\\": false, \\\"step\\\": 1, \\\"low\\\": 1, \\\"high\\\": 4}}\", \"iterator_workers\": \"{\\\"name\\\": \\\"IntDistribution\\\", \\\"attributes\\\": {\\\"log\\\": false, \\\"step\\\": 1, \\\"low\\\": 1, \\\"high\\\": 3}}\"}"');
CREATE TABLE trial_heartbeats (
	trial_heartbeat_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	heartbeat DATETIME NOT NULL, 
	PRIMARY KEY (trial_heartbeat_id), 
	UNIQUE (trial_id), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_intermediate_values (
	trial_intermediate_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	step INTEGER NOT NULL, 
	intermediate_value FLOAT, 
	intermediate_value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_intermediate_value_id), 
	UNIQUE (trial_id, step), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_params (
	param_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	param_name VARCHAR(512), 
	param_value FLOAT, 
	distribution_json TEXT, 
	PRIMARY KEY (param_id), 
	UNIQUE (trial_id, param_name), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_params" VALUES(1,1,'omp_threads',2.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(2,1,'iterator_workers',2.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 3}}');
INSERT INTO "trial_params" VALUES(3,2,'omp_threads',2.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(4,2,'iterator_workers',2.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 3}}');
INSERT INTO "trial_params" VALUES(5,3,'omp_threads',2.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(6,3,'iterator_workers',2.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 3}}');
INSERT INTO "trial_params" VALUES(7,4,'omp_threads',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(8,4,'iterator_workers',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 3}}');
INSERT INTO "trial_params" VALUES(9,5,'omp_threads',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(10,5,'iterator_workers',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 3}}');
INSERT INTO "trial_params" VALUES(11,6,'omp_threads',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(12,6,'iterator_workers',2.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 3}}');
INSERT INTO "trial_params" VALUES(13,7,'omp_threads',2.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(14,7,'iterator_workers',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 3}}');
INSERT INTO "trial_params" VALUES(15,8,'omp_threads',4.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(16,8,'iterator_workers',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 3}}');
INSERT INTO "trial_params" VALUES(17,9,'omp_threads',3.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(18,9,'iterator_workers',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 3}}');
INSERT INTO "trial_params" VALUES(19,10,'omp_threads',1.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 4}}');
INSERT INTO "trial_params" VALUES(20,10,'iterator_workers',3.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 3}}');
CREATE TABLE trial_system_attributes (
	trial_system_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_system_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_system_attributes" VALUES(1,1,'fixed_params','{"iterator_workers": 2, "omp_threads": 2}');
INSERT INTO "trial_system_attributes" VALUES(2,2,'fixed_params','{"iterator_workers": 2, "omp_threads": 2}');
INSERT INTO "trial_system_attributes" VALUES(3,3,'fixed_params','{"iterator_workers": 2, "omp_threads": 2}');
INSERT INTO "trial_system_attributes" VALUES(4,4,'fixed_params','{"iterator_workers": 1, "omp_threads": 1}');
INSERT INTO "trial_system_attributes" VALUES(5,5,'fixed_params','{"iterator_workers": 1, "omp_threads": 1}');
CREATE TABLE trial_user_attributes (
	trial_user_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_user_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_user_attributes" VALUES(1,1,'launch','2');
INSERT INTO "trial_user_attributes" VALUES(2,1,'purpose','"guess"');
INSERT INTO "trial_user_attributes" VALUES(3,1,'failure','"lost host: node2 is gone"');
INSERT INTO "trial_user_attributes" VALUES(4,2,'launch','3');
INSERT INTO "trial_user_attributes" VALUES(5,2,'purpose','"guess"');
INSERT INTO "trial_user_attributes" VALUES(6,2,'failure','"excluded: CPUs were slowed down for their temperature"');
INSERT INTO "trial_user_attributes" VALUES(7,3,'launch','4');
INSERT INTO "trial_user_attributes" VALUES(8,3,'purpose','"guess"');
INSERT INTO "trial_user_attributes" VALUES(9,3,'failure','"out of memory: out of memory: MemoryError"');
INSERT INTO "trial_user_attributes" VALUES(10,4,'launch','5');
INSERT INTO "trial_user_attributes" VALUES(11,4,'purpose','"guess"');
INSERT INTO "trial_user_attributes" VALUES(12,4,'failure','"crashed: exit status 1"');
INSERT INTO "trial_user_attributes" VALUES(13,5,'launch','6');
INSERT INTO "trial_user_attributes" VALUES(14,5,'purpose','"repeat"');
INSERT INTO "trial_user_attributes" VALUES(15,5,'failure','"stalled: nothing happened for 120 s"');
INSERT INTO "trial_user_attributes" VALUES(16,6,'launch','9');
INSERT INTO "trial_user_attributes" VALUES(17,7,'launch','10');
INSERT INTO "trial_user_attributes" VALUES(18,8,'launch','11');
INSERT INTO "trial_user_attributes" VALUES(19,9,'launch','12');
INSERT INTO "trial_user_attributes" VALUES(20,10,'launch','13');
CREATE TABLE trial_values (
	trial_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	value FLOAT, 
	value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_value_id), 
	UNIQUE (trial_id, objective), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_values" VALUES(1,6,0,2.5,'FINITE');
INSERT INTO "trial_values" VALUES(2,7,0,1.0,'FINITE');
INSERT INTO "trial_values" VALUES(3,8,0,3.0,'FINITE');
INSERT INTO "trial_values" VALUES(4,9,0,2.0,'FINITE');
INSERT INTO "trial_values" VALUES(5,10,0,3.0,'FINITE');
CREATE TABLE trials (
	trial_id INTEGER NOT NULL, 
	number INTEGER, 
	study_id INTEGER, 
	state VARCHAR(8) NOT NULL, 
	datetime_start DATETIME, 
	datetime_complete DATETIME, 
	PRIMARY KEY (trial_id), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "trials" VALUES(1,0,1,'FAIL','2026-11-26 11:29:51.586322','2026-11-26 11:29:51.876488');
INSERT INTO "trials" VALUES(2,1,1,'FAIL','2026-11-26 11:29:52.044908','2026-11-26 11:29:52.366244');
INSERT INTO "trials" VALUES(3,2,1,'FAIL','2026-11-26 11:29:52.463804','2026-11-26 11:29:52.774558');
INSERT INTO "trials" VALUES(4,3,1,'FAIL','2026-11-26 11:29:53.060511','2026-11-26 11:29:53.388186');
INSERT INTO "trials" VALUES(5,4,1,'FAIL','2026-11-26 11:29:53.541537','2026-11-26 11:29:53.794315');
INSERT INTO "trials" VALUES(6,5,1,'COMPLETE','2026-11-26 11:29:54.166135','2026-11-26 11:29:54.461882');
INSERT INTO "trials" VALUES(7,6,1,'COMPLETE','2026-11-26 11:29:54.538587','2026-11-26 11:29:54.790921');
INSERT INTO "trials" VALUES(8,7,1,'COMPLETE','2026-11-26 11:29:54.872120','2026-11-26 11:29:55.174338');
INSERT INTO "trials" VALUES(9,8,1,'COMPLETE','2026-11-26 11:29:55.232418','2026-11-26 11:29:55.476882');
INSERT INTO "trials" VALUES(10,9,1,'COMPLETE','2026-11-26 11:29:55.544278','2026-11-26 11:29:55.764551');
CREATE TABLE tune_launches (
	id INTEGER NOT NULL, 
	study_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	purpose VARCHAR(20) NOT NULL, 
	setting TEXT NOT NULL, 
	trial INTEGER, 
	folder TEXT NOT NULL, 
	started_at VARCHAR(40) NOT NULL, 
	wall_s FLOAT NOT NULL, 
	exit_code INTEGER, 
	failure_kind VARCHAR(40), 
	failure_reason TEXT, 
	log_tail TEXT, 
	argv TEXT NOT NULL, 
	env TEXT NOT NULL, 
	machine TEXT NOT NULL, 
	progress TEXT NOT NULL, 
	observation TEXT NOT NULL, 
	effects TEXT NOT NULL, 
	stopped TEXT, 
	load TEXT, 
	window TEXT, 
	exclusion TEXT, 
	PRIMARY KEY (id), 
	UNIQUE (study_id, number), 
	FOREIGN KEY(study_id) REFERENCES tune_studies (id) ON DELETE CASCADE
);
INSERT INTO "tune_launches" VALUES(1,1,1,'warm-up','{"iterator_workers": 2, "omp_threads": 2}',NULL,'/var/tmp/tune-kept/kept/0001','2026-11-26T11:29:51.385937+00:00',0.1,1,NULL,NULL,NULL,'["/opt/mpi/bin/mpirun","--allow-run-as-root","--oversubscribe","--bind-to","none","--mca","btl","^ofi","-n","2","/bin/sh","/opt/tune/wrappers/task_wrapper.sh","--","train","--out","/var/tmp/tune-kept/kept/0001/out","-t","2","-j","2"]','{}','{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]}','[]','{"ranks":[{"rank":0,"threads":3,"children":1,"affinity":[0,1],"blas_threads":2,"opencv_threads":1,"opencv_loaded":true,"world_size":2,"mpi_library":"Open MPI v5.0.11","pools":[["libopenblas",2]],"blas_limit":64,"reported":true,"allocator":null,"mapped":false,"packages":[]}]}','[]',NULL,'{"others_cores":0.5,"busiest":"pid 6263 (python)","throttled_s":0.1,"hot":false,"swapped_bytes":1048576,"unusual":true}',NULL,'{"kind":"interference","text":"disturbed, while launch 7 was not","knobs":[]}');
INSERT INTO "tune_launches" VALUES(2,1,2,'guess','{"iterator_workers": 2, "omp_threads": 2}',0,'/var/tmp/tune-kept/kept/0002','2026-11-26T11:29:51.706366+00:00',0.1,1,'lost host','node2 is gone','ssh: connect','["/opt/mpi/bin/mpirun","--allow-run-as-root","--oversubscribe","--bind-to","none","--mca","btl","^ofi","-n","2","/bin/sh","/opt/tune/wrappers/task_wrapper.sh","--","train","--out","/var/tmp/tune-kept/kept/0002/out","-t","2","-j","2"]','{}','{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]}','[]','{"ranks":[{"rank":0,"threads":3,"children":1,"affinity":[0,1],"blas_threads":2,"opencv_threads":1,"opencv_loaded":true,"world_size":2,"mpi_library":"Open MPI v5.0.11","pools":[["libopenblas",2]],"blas_limit":64,"reported":true,"allocator":null,"mapped":false,"packages":[]}]}','[]',NULL,'{"others_cores":0.5,"busiest":"pid 6263 (python)","throttled_s":0.1,"hot":false,"swapped_bytes":1048576,"unusual":false}',NULL,NULL);
INSERT INTO "tune_launches" VALUES(3,1,3,'guess','{"iterator_workers": 2, "omp_threads": 2}',1,'/var/tmp/tune-kept/kept/0003','2026-11-26T11:29:52.189486+00:00',0.1,1,NULL,NULL,NULL,'["/opt/mpi/bin/mpirun","--allow-run-as-root","--oversubscribe","--bind-to","none","--mca","btl","^ofi","-n","2","/bin/sh","/opt/tune/wrappers/task_wrapper.sh","--","train","--out","/var/tmp/tune-kept/kept/0003/out","-t","2","-j","2"]','{}','{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]}','[]','{"ranks":[{"rank":0,"threads":3,"children":1,"affinity":[0,1],"blas_threads":2,"opencv_threads":1,"opencv_loaded":true,"world_size":2,"mpi_library":"Open MPI v5.0.11","pools":[["libopenblas",2]],"blas_limit":64,"reported":true,"allocator":null,"mapped":false,"packages":[]}]}','[]',NULL,'{"others_cores":0.5,"busiest":"pid 6263 (python)","throttled_s":0.1,"hot":true,"swapped_bytes":1048576,"unusual":true}',NULL,'{"kind":"interference","text":"CPUs were slowed down for their temperature","knobs":[]}');
INSERT INTO "tune_launches" VALUES(4,1,4,'guess','{"iterator_workers": 2, "omp_threads": 2}',2,'/var/tmp/tune-kept/kept/0004','2026-11-26T11:29:52.583916+00:00',0.1,1,'out of memory','out of memory: MemoryError','MemoryError','["/opt/mpi/bin/mpirun","--allow-run-as-root","--oversubscribe","--bind-to","none","--mca","btl","^ofi","-n","2","/bin/sh","/opt/tune/wrappers/task_wrapper.sh","--","train","--out","/var/tmp/tune-kept/kept/0004/out","-t","2","-j","2"]','{}','{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]}','[]','{"ranks":[{"rank":0,"threads":3,"children":1,"affinity":[0,1],"blas_threads":2,"opencv_threads":1,"opencv_loaded":true,"world_size":2,"mpi_library":"Open MPI v5.0.11","pools":[["libopenblas",2]],"blas_limit":64,"reported":true,"allocator":null,"mapped":false,"packages":[]}]}','[]',NULL,'{"others_cores":0.5,"busiest":"pid 6263 (python)","throttled_s":0.1,"hot":false,"swapped_bytes":1048576,"unusual":false}',NULL,NULL);
INSERT INTO "tune_launches" VALUES(5,1,5,'guess','{"iterator_workers": 1, "omp_threads": 1}',3,'/var/tmp/tune-kept/kept/0005','2026-11-26T11:29:53.209218+00:00',0.1,1,'crashed','exit status 1','Traceback …','["/opt/mpi/bin/mpirun","--allow-run-as-root","--oversubscribe","--bind-to","none","--mca","btl","^ofi","-n","2","/bin/sh","/opt/tune/wrappers/task_wrapper.sh","--","train","--out","/var/tmp/tune-kept/kept/0005/out","-t","1","-j","1"]','{}','{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]}','[]','{"ranks":[{"rank":0,"threads":3,"children":1,"affinity":[0,1],"blas_threads":2,"opencv_threads":1,"opencv_loaded":true,"world_size":2,"mpi_library":"Open MPI v5.0.11","pools":[["libopenblas",2]],"blas_limit":64,"reported":true,"allocator":null,"mapped":false,"packages":[]}]}','[]',NULL,'{"others_cores":0.5,"busiest":"pid 6263 (python)","throttled_s":0.1,"hot":false,"swapped_bytes":1048576,"unusual":false}',NULL,NULL);
INSERT INTO "tune_launches" VALUES(6,1,6,'repeat','{"iterator_workers": 1, "omp_threads": 1}',4,'/var/tmp/tune-kept/kept/0006','2026-11-26T11:29:53.681162+00:00',0.1,1,'stalled','nothing happened for 120 s','','["/opt/mpi/bin/mpirun","--allow-run-as-root","--oversubscribe","--bind-to","none","--mca","btl","^ofi","-n","2","/bin/sh","/opt/tune/wrappers/task_wrapper.sh","--","train","--out","/var/tmp/tune-kept/kept/0006/out","-t","1","-j","1"]','{}','{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]}','[]','{"ranks":[{"rank":0,"threads":3,"children":1,"affinity":[0,1],"blas_threads":2,"opencv_threads":1,"opencv_loaded":true,"world_size":2,"mpi_library":"Open MPI v5.0.11","pools":[["libopenblas",2]],"blas_limit":64,"reported":true,"allocator":null,"mapped":false,"packages":[]}]}','[]',NULL,'{"others_cores":0.5,"busiest":"pid 6263 (python)","throttled_s":0.1,"hot":false,"swapped_bytes":1048576,"unusual":false}',NULL,NULL);
INSERT INTO "tune_launches" VALUES(7,1,7,'baseline','{}',NULL,'/var/tmp/tune-kept/kept/0007','2026-11-26T11:29:53.890772+00:00',0.1,1,NULL,NULL,NULL,'["/opt/mpi/bin/mpirun","--allow-run-as-root","--oversubscribe","--bind-to","none","--mca","btl","^ofi","-n","2","/bin/sh","/opt/tune/wrappers/task_wrapper.sh","--","train","--out","/var/tmp/tune-kept/kept/0007/out"]','{}','{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]}','[]','{"ranks":[{"rank":0,"threads":3,"children":1,"affinity":[0,1],"blas_threads":2,"opencv_threads":1,"opencv_loaded":true,"world_size":2,"mpi_library":"Open MPI v5.0.11","pools":[["libopenblas",2]],"blas_limit":64,"reported":true,"allocator":null,"mapped":false,"packages":[]}]}','[]',NULL,'{"others_cores":0.5,"busiest":"pid 6263 (python)","throttled_s":0.1,"hot":false,"swapped_bytes":1048576,"unusual":false}',NULL,'{"kind":"interference","text":"other processes used 0.5 of 4 cores","knobs":[]}');
INSERT INTO "tune_launches" VALUES(8,1,8,'baseline','{}',NULL,'/var/tmp/tune-kept/kept/0008','2026-11-26T11:29:54.113223+00:00',0.1,1,NULL,NULL,NULL,'["/opt/mpi/bin/mpirun","--allow-run-as-root","--oversubscribe","--bind-to","none","--mca","btl","^ofi","-n","2","/bin/sh","/opt/tune/wrappers/task_wrapper.sh","--","train","--out","/var/tmp/tune-kept/kept/0008/out"]','{}','{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]}','[]','{"ranks":[{"rank":0,"threads":3,"children":1,"affinity":[0,1],"blas_threads":2,"opencv_threads":1,"opencv_loaded":true,"world_size":2,"mpi_library":"Open MPI v5.0.11","pools":[["libopenblas",2]],"blas_limit":64,"reported":true,"allocator":null,"mapped":false,"packages":[]}]}','[]',NULL,'{"others_cores":0.5,"busiest":"pid 6263 (python)","throttled_s":0.1,"hot":false,"swapped_bytes":1048576,"unusual":false}','{"job":7,"live":["omp_threads"],"started_s":0.0,"switch_s":0.25,"discarded":1,"iterations":5,"pace_s":0.038834951456310676,"pace_se":0.02,"at_s":3.5,"evaluation_s":0.0,"run_pace_s":0.0}',NULL);
INSERT INTO "tune_launches" VALUES(9,1,9,'search','{"iterator_workers": 2, "omp_threads": 1}',5,'/var/tmp/tune-kept/kept/0009','2026-11-26T11:29:54.245248+00:00',0.1,1,NULL,NULL,NULL,'["/opt/mpi/bin/mpirun","--allow-run-as-root","--oversubscribe","--bind-to","none","--mca","btl","^ofi","-n","2","/bin/sh","/opt/tune/wrappers/task_wrapper.sh","--","train","--out","/var/tmp/tune-kept/kept/0009/out","-t","1","-j","2"]','{}','{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]}','[]','{"ranks":[{"rank":0,"threads":3,"children":1,"affinity":[0,1],"blas_threads":2,"opencv_threads":1,"opencv_loaded":true,"world_size":2,"mpi_library":"Open MPI v5.0.11","pools":[["libopenblas",2]],"blas_limit":64,"reported":true,"allocator":null,"mapped":false,"packages":[]}]}','[]',NULL,'{"others_cores":0.5,"busiest":"pid 6263 (python)","throttled_s":0.1,"hot":false,"swapped_bytes":1048576,"unusual":false}',NULL,NULL);
INSERT INTO "tune_launches" VALUES(10,1,10,'search','{"iterator_workers": 1, "omp_threads": 2}',6,'/var/tmp/tune-kept/kept/0010','2026-11-26T11:29:54.661438+00:00',0.1,1,NULL,NULL,NULL,'["/opt/mpi/bin/mpirun","--allow-run-as-root","--oversubscribe","--bind-to","none","--mca","btl","^ofi","-n","2","/bin/sh","/opt/tune/wrappers/task_wrapper.sh","--","train","--out","/var/tmp/tune-kept/kept/0010/out","-t","2","-j","1"]','{}','{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]}','[]','{"ranks":[{"rank":0,"threads":3,"children":1,"affinity":[0,1],"blas_threads":2,"opencv_threads":1,"opencv_loaded":true,"world_size":2,"mpi_library":"Open MPI v5.0.11","pools":[["libopenblas",2]],"blas_limit":64,"reported":true,"allocator":null,"mapped":false,"packages":[]}]}','[]',NULL,'{"others_cores":0.5,"busiest":"pid 6263 (python)","throttled_s":0.1,"hot":false,"swapped_bytes":1048576,"unusual":false}',NULL,NULL);
INSERT INTO "tune_launches" VALUES(11,1,11,'search','{"iterator_workers": 1, "omp_threads": 4}',7,'/var/tmp/tune-kept/kept/0011','2026-11-26T11:29:55.052330+00:00',0.1,1,NULL,NULL,NULL,'["/opt/mpi/bin/mpirun","--allow-run-as-root","--oversubscribe","--bind-to","none","--mca","btl","^ofi","-n","2","/bin/sh","/opt/tune/wrappers/task_wrapper.sh","--","train","--out","/var/tmp/tune-kept/kept/0011/out","-t","4","-j","1"]','{}','{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]}','[]','{"ranks":[{"rank":0,"threads":3,"children":1,"affinity":[0,1],"blas_threads":2,"opencv_threads":1,"opencv_loaded":true,"world_size":2,"mpi_library":"Open MPI v5.0.11","pools":[["libopenblas",2]],"blas_limit":64,"reported":true,"allocator":null,"mapped":false,"packages":[]}]}','[]',NULL,'{"others_cores":0.5,"busiest":"pid 6263 (python)","throttled_s":0.1,"hot":false,"swapped_bytes":1048576,"unusual":false}',NULL,NULL);
INSERT INTO "tune_launches" VALUES(12,1,12,'search','{"iterator_workers": 1, "omp_threads": 3}',8,'/var/tmp/tune-kept/kept/0012','2026-11-26T11:29:55.373275+00:00',0.1,1,NULL,NULL,NULL,'["/opt/mpi/bin/mpirun","--allow-run-as-root","--oversubscribe","--bind-to","none","--mca","btl","^ofi","-n","2","/bin/sh","/opt/tune/wrappers/task_wrapper.sh","--","train","--out","/var/tmp/tune-kept/kept/0012/out","-t","3","-j","1"]','{}','{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]}','[]','{"ranks":[{"rank":0,"threads":3,"children":1,"affinity":[0,1],"blas_threads":2,"opencv_threads":1,"opencv_loaded":true,"world_size":2,"mpi_library":"Open MPI v5.0.11","pools":[["libopenblas",2]],"blas_limit":64,"reported":true,"allocator":null,"mapped":false,"packages":[]}]}','[]',NULL,'{"others_cores":0.5,"busiest":"pid 6263 (python)","throttled_s":0.1,"hot":false,"swapped_bytes":1048576,"unusual":false}',NULL,NULL);
INSERT INTO "tune_launches" VALUES(13,1,13,'search','{"iterator_workers": 3, "omp_threads": 1}',9,'/var/tmp/tune-kept/kept/0013','2026-11-26T11:29:55.652228+00:00',0.1,1,NULL,NULL,NULL,'["/opt/mpi/bin/mpirun","--allow-run-as-root","--oversubscribe","--bind-to","none","--mca","btl","^ofi","-n","2","/bin/sh","/opt/tune/wrappers/task_wrapper.sh","--","train","--out","/var/tmp/tune-kept/kept/0013/out","-t","1","-j","3"]','{}','{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]}','[]','{"ranks":[{"rank":0,"threads":3,"children":1,"affinity":[0,1],"blas_threads":2,"opencv_threads":1,"opencv_loaded":true,"world_size":2,"mpi_library":"Open MPI v5.0.11","pools":[["libopenblas",2]],"blas_limit":64,"reported":true,"allocator":null,"mapped":false,"packages":[]}]}','[]',NULL,'{"others_cores":0.5,"busiest":"pid 6263 (python)","throttled_s":0.1,"hot":false,"swapped_bytes":1048576,"unusual":false}',NULL,NULL);
INSERT INTO "tune_launches" VALUES(14,1,14,'confirm','{"iterator_workers": 1, "omp_threads": 2}',NULL,'/var/tmp/tune-kept/kept/0014','2026-11-26T11:29:55.869202+00:00',0.1,1,NULL,NULL,NULL,'["/opt/mpi/bin/mpirun","--allow-run-as-root","--oversubscribe","--bind-to","none","--mca","btl","^ofi","-n","2","/bin/sh","/opt/tune/wrappers/task_wrapper.sh","--","train","--out","/var/tmp/tune-kept/kept/0014/out","-t","2","-j","1"]','{}','{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]}','[]','{"ranks":[{"rank":0,"threads":3,"children":1,"affinity":[0,1],"blas_threads":2,"opencv_threads":1,"opencv_loaded":true,"world_size":2,"mpi_library":"Open MPI v5.0.11","pools":[["libopenblas",2]],"blas_limit":64,"reported":true,"allocator":null,"mapped":false,"packages":[]}]}','[]',NULL,'{"others_cores":0.5,"busiest":"pid 6263 (python)","throttled_s":0.1,"hot":false,"swapped_bytes":1048576,"unusual":false}',NULL,NULL);
INSERT INTO "tune_launches" VALUES(15,1,15,'confirm','{}',NULL,'/var/tmp/tune-kept/kept/0015','2026-11-26T11:29:55.974951+00:00',0.1,1,NULL,NULL,NULL,'["/opt/mpi/bin/mpirun","--allow-run-as-root","--oversubscribe","--bind-to","none","--mca","btl","^ofi","-n","2","/bin/sh","/opt/tune/wrappers/task_wrapper.sh","--","train","--out","/var/tmp/tune-kept/kept/0015/out"]','{}','{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]}','[]','{"ranks":[{"rank":0,"threads":3,"children":1,"affinity":[0,1],"blas_threads":2,"opencv_threads":1,"opencv_loaded":true,"world_size":2,"mpi_library":"Open MPI v5.0.11","pools":[["libopenblas",2]],"blas_limit":64,"reported":true,"allocator":null,"mapped":false,"packages":[]}]}','[]',NULL,'{"others_cores":0.5,"busiest":"pid 6263 (python)","throttled_s":0.1,"hot":false,"swapped_bytes":1048576,"unusual":false}',NULL,NULL);
CREATE TABLE tune_meta (
	id INTEGER NOT NULL, 
	schema_version INTEGER NOT NULL, 
	opened_at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "tune_meta" VALUES(1,7,'2026-11-26T11:29:49.085441+00:00');
CREATE TABLE tune_samples (
	launch_id INTEGER NOT NULL, 
	window INTEGER NOT NULL, 
	elapsed_s FLOAT NOT NULL, 
	iterations INTEGER NOT NULL, 
	epochs FLOAT, 
	loss FLOAT, 
	reading TEXT, 
	PRIMARY KEY (launch_id, window), 
	FOREIGN KEY(launch_id) REFERENCES tune_launches (id) ON DELETE CASCADE
);
INSERT INTO "tune_samples" VALUES(1,0,1.5,100,1.5,0.25,NULL);
INSERT INTO "tune_samples" VALUES(3,0,1.5,100,1.5,0.25,NULL);
INSERT INTO "tune_samples" VALUES(7,0,4.0,100,1.5,0.25,NULL);
INSERT INTO "tune_samples" VALUES(8,0,4.0,100,1.5,0.25,NULL);
INSERT INTO "tune_samples" VALUES(9,0,2.5,100,1.5,0.25,NULL);
INSERT INTO "tune_samples" VALUES(10,0,1.0,100,1.5,0.25,NULL);
INSERT INTO "tune_samples" VALUES(11,0,3.0,100,1.5,0.25,NULL);
INSERT INTO "tune_samples" VALUES(12,0,2.0,100,1.5,0.25,NULL);
INSERT INTO "tune_samples" VALUES(13,0,3.0,100,1.5,0.25,NULL);
INSERT INTO "tune_samples" VALUES(14,0,1.0,100,1.5,0.25,NULL);
INSERT INTO "tune_samples" VALUES(15,0,4.0,100,1.5,0.25,NULL);
CREATE TABLE tune_studies (
	id INTEGER NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	state VARCHAR(20) NOT NULL, 
	reason TEXT NOT NULL, 
	spec TEXT NOT NULL, 
	identity TEXT NOT NULL, 
	created_at VARCHAR(40) NOT NULL, 
	updated_at VARCHAR(40) NOT NULL, 
	forgiven_until INTEGER NOT NULL, 
	best_setting TEXT, 
	best_s FLOAT, 
	baseline_s FLOAT, 
	trials INTEGER NOT NULL, 
	launches INTEGER NOT NULL, 
	failures INTEGER NOT NULL, 
	conclusion VARCHAR(40), 
	finding TEXT, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
INSERT INTO "tune_studies" VALUES(1,'kept','finished','all settings that are not ruled out were tried','{"name":"kept","command":["train","--out","{out}"],"launcher":{"kind":"openmpi","mpirun":"/opt/mpi/bin/mpirun","version":"5.0.11","libmpi":null,"extra_args":[],"ssh":[],"carrier":null},"layout":{"ranks":2,"hosts":["localhost"],"by_host":[]},"machine":{"hostname":"node1","cpu_model":"Some CPU","logical_cpus":4,"physical_cores":4,"affinity_cpus":4,"quota_cpus":null,"numa_nodes":1,"memory_bytes":8589934592,"gpus":[]},"knobs":[{"name":"omp_threads","domain":{"type":"IntRange","low":1,"high":4},"route":{"type":"Flag","option":"-t","switch":false},"help":"","default":4,"changes_numerics":false,"live":false,"gpu_values":[],"why":"","source":"","neutral":null,"when":[],"launchers":[],"needs":[],"usual":false},{"name":"iterator_workers","domain":{"type":"IntRange","low":1,"high":3},"route":{"type":"Flag","option":"-j","switch":false},"help":"","default":3,"changes_numerics":false,"live":false,"gpu_values":[],"why":"","source":"","neutral":null,"when":[],"launchers":[],"needs":[],"usual":false}],"fixed":{"items":[]},"job":["train","--all"],"prepare":[],"objective":{"kind":"logreport","key":"elapsed_time","filename":null,"loss_key":"","statistic":"last","pattern":"","unit":"","maximize":false,"decimal":""},"trials":8,"budget_s":null,"until":0.01,"precision":0.02,"oversubscription":null,"confirm":"auto","warm_ups":1,"trial_limit_s":null,"stall_limit_s":120.0,"seed":0,"left_out":[],"typed":[],"folder":"","interpreter":"","environment":[],"items":null,"price_per_hour":null,"sampler":"tune","pruner":"race","live":"auto","learn_from":"auto","lesson":null,"hosts_from":[],"spares":[]}','{"command":["train","--out","{out}"],"baseline":["train","--out","{out}"],"routes":{"omp_threads":"argument -t","iterator_workers":"argument -j"},"prepare":[],"folder":"","interpreter":"","ranks":2,"hosts":["localhost"],"mpi":"openmpi 5.0.11","mpirun":"/opt/mpi/bin/mpirun","libmpi":null,"mpirun_args":[],"objective":"logreport elapsed_time in log","hostname":"node1","cpu_model":"Some CPU","cores":4,"affinity":4,"quota":null,"memory_gib":8,"gpus":[],"environment":{}}','2026-11-26T11:29:51.156944+00:00','2026-11-26T11:29:56.151600+00:00',0,'{"iterator_workers": 1, "omp_threads": 2}',1.0,4.0,7,15,3,'faster','{"ratio":4.0,"low":4.0,"high":null,"best_runs":1,"reference_runs":1,"claim":"faster","pairs_missing":null}');
CREATE TABLE tune_telemetry (
	launch_id INTEGER NOT NULL, 
	track INTEGER NOT NULL, 
	host TEXT, 
	rank INTEGER, 
	content TEXT NOT NULL, 
	PRIMARY KEY (launch_id, track), 
	FOREIGN KEY(launch_id) REFERENCES tune_launches (id) ON DELETE CASCADE
);
CREATE TABLE version_info (
	version_info_id INTEGER NOT NULL, 
	schema_version INTEGER, 
	library_version VARCHAR(256), 
	PRIMARY KEY (version_info_id), 
	CHECK (version_info_id=1)
);
INSERT INTO "version_info" VALUES(1,12,'5.0.0');
CREATE INDEX ix_tune_launches_study_id ON tune_launches (study_id);
CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name);
CREATE INDEX ix_trials_study_id ON trials (study_id);
COMMIT;
