# The command `parity`, with torch for the CPU:
#     docker build -t cellbridge .
#     docker run --rm --user "$(id -u)" -v "$PWD:/work" cellbridge run my_model.py
# With CUDA: docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128 -t cellbridge .
FROM python:3.12-slim
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY . /source
RUN pip install --no-cache-dir --index-url "$TORCH_INDEX" "torch>=2.13,<2.16" \
    && pip install --no-cache-dir /source \
    && rm -rf /source \
    && useradd --create-home --uid 1000 parity
USER 1000
WORKDIR /work
ENTRYPOINT ["parity"]
CMD ["--help"]
