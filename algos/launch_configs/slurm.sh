#!/bin/bash
# Trains on the nodes of a Slurm job, with a process for each GPU. The arguments are those of `toolorchestra train`:
#
#     sbatch --nodes 2 slurm.sh grpo --env ToolOrchestra-Restaurant-v0 --model PATH --groups 16 --output /shared/runs/grpo
#
# The environment in which toolorchestra is installed has to be active; the model, the data and the output folder are
# under the same paths on all nodes. Processes per node: PROCESSES (default: GPUs). Port of the first node: PORT. A job
# that is started again, by Slurm or by hand, continues with --resume.
#SBATCH --job-name toolorchestra
#SBATCH --nodes 1
#SBATCH --ntasks-per-node 1
#SBATCH --gpus-per-node 8
#SBATCH --cpus-per-task 64
#SBATCH --time 24:00:00
#SBATCH --output toolorchestra-%j.log
set -euo pipefail

hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
first=${hosts%%$'\n'*} # no pipe to head: pipefail would end the script when scontrol is cut short
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
  set -- "$@" --resume # Slurm has put the job back into its queue, as after the failure of a node
fi
srun --kill-on-bad-exit=1 torchrun --nnodes "$SLURM_NNODES" --nproc_per_node "${PROCESSES:-gpu}" \
  --rdzv_backend c10d --rdzv_endpoint "$first:${PORT:-29500}" --rdzv_id "$SLURM_JOB_ID" \
  -m -- toolorchestra train "$@"
