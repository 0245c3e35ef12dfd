"""The databases of the trainings: MNIST and a part of CIFAR-10 from the carry, or digits that Moka draws itself."""

import gzip
import shutil

from steps.session import StepError


def digits(session):
    """Folders of training and test digits, 28x28 grey, and what they are."""
    target, source = session.temporary / "digits", session.data / "mnist"
    is_mnist = (source / "train-images-idx3-ubyte.gz").is_file() and not session.is_rehearsal
    if not target.is_dir():
        for split, prefix, count in (("train", "train", 2000), ("test", "t10k", 500)):
            spec = f"glyphs:{count}:{1 if split == 'train' else 2}"
            if is_mnist:
                spec = "idx:" + ",".join(unpacked(source / f"{prefix}-{kind}-ubyte.gz", session.temporary)
                                         for kind in ("images-idx3", "labels-idx1"))
            session.run_moka("data", "import", spec, str(target / split), "--quiet")
    return target / "train", target / "test", "MNIST" if is_mnist else "drawn digits"


def pictures(session):
    """Folders of training and test pictures, 32x32 colour. Errors: StepError without packed ones."""
    target, source = session.temporary / "pictures", session.data / "cifar10"
    if not (source / "train.tar").is_file():
        raise StepError("the carry has no CIFAR-10 (tools/gpu/pack --data)")
    if not target.is_dir():
        for split in ("train", "test"):
            session.run_moka("data", "import", f"tar:{source / split}.tar,{split}", str(target / split), "--quiet",
                             *(["--shuffle", "1"] if split == "train" else []))
    return target / "train", target / "test"


def unpacked(path, folder):
    target = folder / path.stem
    with gzip.open(path) as source, open(target, "wb") as out:
        shutil.copyfileobj(source, out)
    return str(target)


def sources(train, test):
    """Overrides that make a net read these databases."""
    return [f"layer[0].data_param.source={train}", f"layer[1].data_param.source={test}"]
