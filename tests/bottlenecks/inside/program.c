/* The same without Python: LOG ITERATIONS WORK_MS THREADS MEGABYTES SLEEPY SLEEP_MS */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static void *work(void *cpu_ms) {
  double end = now(CLOCK_THREAD_CPUTIME_ID) + *(double *)cpu_ms / 1e3;
  volatile double x = 1;
  while (now(CLOCK_THREAD_CPUTIME_ID) < end)
    for (int i = 0; i < 20000; i++) x = x * 1.0000001;
  return NULL;
}

int main(int argc, char **argv) {
  (void)argc;
  int iterations = atoi(argv[2]), threads = atoi(argv[4]), sleepy = atoi(argv[6]), rank;
  double work_ms = atof(argv[3]), sleep_ms = atof(argv[7]);
  int count = 1 + (int)(atof(argv[5]) * 1e6 / 8);
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  double *sent = calloc(count, 8), *received = calloc(count, 8);
  pthread_t ids[64];
  MPI_Barrier(MPI_COMM_WORLD);
  double begun = now(CLOCK_MONOTONIC);
  for (int iteration = 1; iteration <= iterations; iteration++) {
    for (int i = 1; i < threads; i++) pthread_create(&ids[i], NULL, work, &work_ms);
    work(&work_ms);
    for (int i = 1; i < threads; i++) pthread_join(ids[i], NULL);
    if (rank == sleepy) {
      struct timespec t = {(time_t)(sleep_ms / 1e3), (long)(sleep_ms * 1e6) % 1000000000};
      nanosleep(&t, NULL);
    }
    MPI_Allreduce(sent, received, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  if (rank == 0) {
    FILE *log = fopen(argv[1], "w");
    fprintf(log, "[{\"iteration\": %d, \"elapsed_time\": %f}]", iterations, now(CLOCK_MONOTONIC) - begun);
    fclose(log);
  }
  MPI_Finalize();
  return 0;
}
