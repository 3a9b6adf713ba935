"""How the scripts here build what they measure."""

import os
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TARGET = HERE / "target"


def run(command, env=None, cwd=HERE):
    """What a command says; what went wrong is told, and ends the script."""
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"FAILED: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def environment(toolchain=None):
    """The user's, without what changes how cargo builds."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CARGO_PROFILE_", "CARGO_BUILD_"))}
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_TARGET_DIR", "CARGO_INCREMENTAL"]:
        env.pop(name, None)
    if toolchain:
        env["RUSTUP_TOOLCHAIN"] = toolchain
    return env


def prepare():
    """The repository's versions of dependencies, and its profiles, as a program would copy them."""
    TARGET.mkdir(exist_ok=True)
    (HERE / "Cargo.lock").write_text((ROOT / "Cargo.lock").read_text())
    lines, wanted = [], False
    for line in (ROOT / "Cargo.toml").read_text().splitlines():
        if line.startswith("["):
            wanted = line in ("[profile.release]", "[profile.sidecar]")
        if wanted:
            lines.append(line)
    (TARGET / "profiles.toml").write_text("\n".join(lines))
    # So that builds beside each other do not write it.
    run(["cargo", "metadata", "--format-version=1"], environment())


def counts(env):
    run(["cargo", "build", "--locked", "--profile", "counts", "--bin", "counts", "--features", "pack"], env)
    return TARGET / "counts" / "counts"


# As README has it: equal functions once, and relocations packed.
SMALL = "-C link-arg=-Wl,--icf=all -C link-arg=-Wl,-z,pack-relative-relocs"


def sidecar(env, tls):
    """With symbols: `strip` afterwards gives the same file as the profile does, but for some hundred bytes."""
    target = TARGET / ("sidecar-tls" if tls else "sidecar-plain")
    command = ["cargo", "build", "--locked", "--profile", "sidecar", "--bin", "sidecar", "--target-dir", target]
    command += ["--config", TARGET / "profiles.toml", "--config", "profile.sidecar.strip=false"]
    run(command + (["--features", "tls"] if tls else []), env | {"RUSTFLAGS": SMALL})
    return target / "sidecar" / "sidecar"


def stripped_size(binary):
    stripped = binary.with_name("stripped")
    run(["strip", "-s", "-o", stripped, binary])
    return stripped.stat().st_size
