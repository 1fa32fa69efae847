#!/bin/bash
# Measures Qwen3-8B with random weights on one H200, in parts of less than ten minutes each.
#
#   bench/h200/measure.sh PART OUT      PART: start | fixed | agentic | live
#
# Needs: INFEROMETER (a command), MODELS (a folder with qwen3-8b: config and tokenizer), SESSIONS (a
# session file: `inferometer workload sample TRACES --max-context 131072`), SERVER_ENV (variables that vLLM is started with, NAME=VALUE words).
set -u
part=$1 out=$2
here=$(cd "$(dirname "$0")" && pwd)
model=$MODELS/qwen3-8b
port=8002
url=http://127.0.0.1:$port
known=(--hardware h200 --precision bf16 --tokenizer "$model")

serve() {  # a server that outlives this part
    # shellcheck disable=SC2086
    setsid env $SERVER_ENV python3 -m vllm.entrypoints.openai.api_server --model "$model" \
        --served-model-name m --load-format dummy --host 127.0.0.1 --port $port \
        --attention-backend FLASH_ATTN --generation-config vllm --gpu-memory-utilization 0.9 \
        --hf-overrides '{"max_position_embeddings": 131072}' --max-model-len 131072 --max-num-seqs 256 --max-num-batched-tokens 8192 \
        --enable-prompt-tokens-details --disable-uvicorn-access-log \
        >"/tmp/served.log" 2>&1 </dev/null &
    for _ in $(seq 300); do
        curl -sf $url/health >/dev/null && return 0
        sleep 1
    done
    tail -5 /tmp/served.log
    return 1
}

case $part in
start)  # one point with the whole path: start, ready, measure, stop; then a server for the rest
    printf 'models: { qwen3-8b: %s }\nenv:\n' "$model" >/tmp/site.yaml
    for word in $SERVER_ENV; do printf '  %s: "%s"\n' "${word%%=*}" "${word#*=}" >>/tmp/site.yaml; done
    mkdir -p /tmp/plan && cp -r "$here/master.yaml" "$here/runners.yaml" "$here/recipes" /tmp/plan
    printf -- '- workload: { tokenizer: %s }\n' "$model" >/tmp/plan/recipes/tokenizer.yaml
    $INFEROMETER run /tmp/plan/master.yaml --runners /tmp/plan/runners.yaml --scenario fixed --conc 8 \
        --site /tmp/site.yaml --out "$out/run-start" --format json
    serve && $INFEROMETER bench $url --isl 1024 --osl 256 --duration 60 --warmup 2 --seed 1 \
        --concurrency 1,32 "${known[@]}" --out "$out/run-1k-a" --format json
    ;;
fixed)
    $INFEROMETER bench $url --isl 1024 --osl 256 --duration 60 --warmup 2 --seed 2 \
        --concurrency 128 "${known[@]}" --out "$out/run-1k-b" --format json
    $INFEROMETER bench $url --isl 8192 --osl 256 --duration 60 --warmup 2 --seed 3 \
        --concurrency 1,4,16 "${known[@]}" --out "$out/run-8k" --format json
    for conc in 1 32 128; do
        # shellcheck disable=SC2086
        env $SERVER_ENV python3 -m vllm.entrypoints.cli.main bench serve --backend openai-chat \
            --endpoint /v1/chat/completions --base-url $url --model m --tokenizer "$model" \
            --dataset-name random --random-input-len 1024 --random-output-len 256 --ignore-eos \
            --num-prompts $((conc * 6 + 14)) --max-concurrency $conc --save-result \
            --result-filename "$out/vllm-bench-$conc.json" 2>&1 | tail -25
    done
    ;;
agentic)
    # A server left by an earlier part is used; one that died in it is not.
    curl -sf $url/health >/dev/null || serve || exit 1
    $INFEROMETER bench $url --workload "$SESSIONS" --duration 480 --concurrency 8 --seed 4 \
        "${known[@]}" --out "$out/run-agentic" --format json
    ;;
live)  # what the engine answers is sent back to it
    curl -sf $url/health >/dev/null || serve || exit 1
    $INFEROMETER bench $url --workload "$SESSIONS" --replies live --duration 60 --concurrency 4 --seed 5 \
        "${known[@]}" --out "$out/run-live" --format json
    ;;
esac
