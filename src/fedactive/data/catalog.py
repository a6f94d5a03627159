"""The catalogue: what is known of every dataset before any file is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from fedactive.data.readers import Parts


@dataclass(frozen=True)
class OfficialFile:
    """A file as the authors of a dataset publish it."""

    name: str
    checksum: str  # "md5:..." or "sha256:..."
    url: str = ""  # empty for a file that comes out of an archive


@dataclass(frozen=True)
class Layout:
    """One form of a dataset on disk: its files, the folders to look in, and the reader of a file."""

    files: tuple[OfficialFile, ...]
    folders: tuple[str, ...]  # below the data folder, searched in this order; downloads go to the first
    read: Callable[[Path], Parts]


@dataclass(frozen=True)
class DatasetCard:
    """One dataset of the catalogue."""

    name: str
    description: str
    classes: tuple[str, ...]
    channels: int
    size: int  # height and width in pixels
    mean: tuple[float, ...]  # per channel, of pixels scaled to [0, 1]
    std: tuple[float, ...]
    licence: str
    layouts: tuple[Layout, ...] = ()  # in order of preference; downloads give the first
    archive: OfficialFile | None = None  # if the files of the first layout are published as one .tar.gz
    built_in: Callable[[], Parts] | None = None  # reads a dataset that needs no files
    label_until: int = 60  # percent of the pool that the paper labels in total
    unsupported: str = ""  # why it cannot be loaded, as a sentence; empty if it can
    # Level and width in which pictures of more than 8 bits are seen. Not in repr: sites compare older ones.
    window: tuple[float, float] | None = field(default=None, repr=False)

    @property
    def non_commercial(self) -> bool:
        return "non-commercial" in self.licence or "-NC" in self.licence


def _reader(module: str, function: str = "read") -> Callable[..., Any]:
    """Make a reader that is imported when first called: it needs NumPy, the catalogue does not."""

    def read(*path: Path) -> Any:
        return getattr(import_module(f"fedactive.data.readers.{module}"), function)(*path)

    return read


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(" | "))


def _files(algorithm: str, digests: dict[str, str], url: str = "") -> tuple[OfficialFile, ...]:
    return tuple(
        OfficialFile(name, f"{algorithm}:{digest}", url and f"{url}{name}")
        for name, digest in digests.items()
    )


DIGITS = tuple("0123456789")

HANDWRITTEN = DatasetCard(
    name="digits",
    description="small handwritten digits that come with fedactive, for trying things out in seconds",
    classes=DIGITS,
    channels=1,
    size=8,
    mean=(0.5,),
    std=(0.5,),
    licence="CC BY 4.0 (UCI Optical Recognition of Handwritten Digits)",
    built_in=_reader("digits"),
)

CIFAR10_BINARY = Layout(
    files=_files(
        "sha256",
        {
            "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        },
    ),
    folders=("cifar-10-batches-bin",),
    read=_reader("cifar10", "read_binary"),
)

CIFAR10_PYTHON = Layout(
    files=_files(
        "md5",
        {
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
        },
    ),
    folders=("cifar-10-batches-py",),
    read=_reader("cifar10", "read_pickle"),
)

CIFAR10 = DatasetCard(
    name="cifar10",
    description="natural photographs of ten kinds of animals and vehicles",
    classes=_names("airplane | automobile | bird | cat | deer | dog | frog | horse | ship | truck"),
    channels=3,
    size=32,
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
    licence="none stated by the authors (Krizhevsky, 2009), who ask to be cited",
    layouts=(CIFAR10_BINARY, CIFAR10_PYTHON),
    archive=OfficialFile(
        "cifar-10-binary.tar.gz",
        "md5:c32a1d4ab5d03f1284b67883e8d87530",
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    ),
    label_until=80,
)

SVHN_FILES = _files(
    "md5",
    {
        "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
        "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
    },
    "http://ufldl.stanford.edu/housenumbers/",
)

SVHN = DatasetCard(
    name="svhn",
    description="house numbers in street photographs, cropped to one digit each",
    classes=DIGITS,
    channels=3,
    size=32,
    mean=(0.4376821, 0.4437697, 0.47280442),
    std=(0.19803012, 0.20101562, 0.19703614),
    licence="for non-commercial use only",
    layouts=(Layout(SVHN_FILES, folders=("", "svhn"), read=_reader("svhn")),),
)


def _idx_layouts(
    url: str, folders: tuple[str, ...], digests: dict[str, tuple[str, str]]
) -> tuple[Layout, ...]:
    """Make the layouts of a dataset in idx files, from the md5 of each .gz and of its content."""
    packed = _files("md5", {f"{name}.gz": packed for name, (packed, _) in digests.items()}, url)
    unpacked = _files("md5", {name: unpacked for name, (_, unpacked) in digests.items()})
    read = _reader("idx")
    return Layout(packed, folders, read), Layout(unpacked, folders, read)


MNIST_LAYOUTS = _idx_layouts(
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    ("mnist", "mnist/raw", "MNIST/raw", ""),
    {
        "train-images-idx3-ubyte": ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
        "train-labels-idx1-ubyte": ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
        "t10k-images-idx3-ubyte": ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
        "t10k-labels-idx1-ubyte": ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
    },
)

FASHION_MNIST_LAYOUTS = _idx_layouts(
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ("fashion_mnist", "fashion_mnist/raw", "FashionMNIST/raw"),  # not "": there these names mean mnist
    {
        "train-images-idx3-ubyte": ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
        "train-labels-idx1-ubyte": ("25c81989df183df01b3e8a0aad5dffbe", "9018921c3c673c538a1fc5bad174d6f9"),
        "t10k-images-idx3-ubyte": ("bef4ecab320f06d8554ea6380940ec79", "8181f5470baa50b63fa0f6fddb340f0a"),
        "t10k-labels-idx1-ubyte": ("bb300cfdad3c16e7a12a480ee83cd310", "15d484375f8d13e6eb1aabb0c3f46965"),
    },
)

MNIST = DatasetCard(
    name="mnist",
    description="handwritten digits",
    classes=DIGITS,
    channels=1,
    size=28,
    mean=(0.1307,),
    std=(0.3081,),
    licence="CC BY-SA 3.0",
    layouts=MNIST_LAYOUTS,
)

FASHION_MNIST = DatasetCard(
    name="fashion_mnist",
    description="small grey photographs of clothes, shoes and bags",
    classes=_names(
        "T-shirt/top | Trouser | Pullover | Dress | Coat | Sandal | Shirt | Sneaker | Bag | Ankle boot"
    ),
    channels=1,
    size=28,
    mean=(0.2860,),
    std=(0.3530,),
    licence="MIT",
    layouts=FASHION_MNIST_LAYOUTS,
)


def _medmnist(
    name: str,
    channels: int,
    md5: str,
    description: str,
    classes: str,
    licence: str = "CC BY 4.0",
    unsupported: str = "",
) -> DatasetCard:
    url = f"https://zenodo.org/records/10519652/files/{name}.npz?download=1"
    file = OfficialFile(f"{name}.npz", f"md5:{md5}", url)
    return DatasetCard(
        name=name,
        description=description,
        classes=_names(classes),
        channels=channels,
        size=28,
        mean=(0.5,) * channels,
        std=(0.5,) * channels,
        licence=licence,
        layouts=(Layout((file,), ("", name), _reader("medmnist")),),
        unsupported=unsupported,
    )


# fmt: off
ORGANS = (
    "bladder | left femur | right femur | heart | left kidney | right kidney | liver | left lung | right lung"
    " | pancreas | spleen"
)

MEDMNIST = (
    _medmnist("pathmnist", 3, "a8b06965200029087d5bd730944a56c1",
              "stained tissue of colorectal cancer under the microscope",
              "adipose | background | debris | lymphocytes | mucus | smooth muscle | normal colon mucosa"
              " | cancer-associated stroma | colorectal adenocarcinoma epithelium"),
    _medmnist("chestmnist", 1, "02c8a6516a18b556561a56cbdd36c4a8",
              "chest X-rays with up to fourteen findings each",
              "atelectasis | cardiomegaly | effusion | infiltration | mass | nodule | pneumonia"
              " | pneumothorax | consolidation | edema | emphysema | fibrosis | pleural | hernia",
              unsupported="chestmnist is multi-label (one X-ray, several findings), which is not supported"),
    _medmnist("dermamnist", 3, "0744692d530f8e62ec473284d019b0c7",
              "pigmented skin lesions seen through a dermatoscope",
              "actinic keratoses and intraepithelial carcinoma | basal cell carcinoma"
              " | benign keratosis-like lesions | dermatofibroma | melanoma | melanocytic nevi"
              " | vascular lesions",
              licence="CC BY-NC 4.0"),
    _medmnist("octmnist", 1, "c68d92d5b585d8d81f7112f81e2d0842",
              "optical coherence tomography of the retina",
              "choroidal neovascularization | diabetic macular edema | drusen | normal"),
    _medmnist("pneumoniamnist", 1, "28209eda62fecd6e6a2d98b1501bb15f",
              "chest X-rays of children, healthy or with pneumonia",
              "normal | pneumonia"),
    _medmnist("retinamnist", 3, "bd4c0672f1bba3e3a89f0e4e876791e4",
              "photographs of the back of the eye, graded for diabetic retinopathy",
              "grade 0 | grade 1 | grade 2 | grade 3 | grade 4"),
    _medmnist("breastmnist", 1, "750601b1f35ba3300ea97c75c52ff8f6",
              "breast ultrasound, malignant or not",
              "malignant | normal or benign"),
    _medmnist("bloodmnist", 3, "7053d0359d879ad8a5505303e11de1dc",
              "single blood cells under the microscope",
              "basophil | eosinophil | erythroblast | immature granulocyte | lymphocyte | monocyte"
              " | neutrophil | platelet"),
    _medmnist("tissuemnist", 1, "ebe78ee8b05294063de985d821c1c34b",
              "cells of the human kidney cortex",
              "collecting duct, connecting tubule | distal convoluted tubule | glomerular endothelial cells"
              " | interstitial endothelial cells | leukocytes | podocytes | proximal tubule segments"
              " | thick ascending limb"),
    _medmnist("organamnist", 1, "68e3f8846a6bd62f0c9bf841c0d9eacc", "organs in axial CT slices", ORGANS),
    _medmnist("organcmnist", 1, "b9ceb9546e10131b32923c5bbeaea2b1", "organs in coronal CT slices", ORGANS),
    _medmnist("organsmnist", 1, "9ab87b696fb54e2a387ebe992d6ed5f1", "organs in sagittal CT slices", ORGANS),
)
# fmt: on

DATASETS: dict[str, DatasetCard] = {
    card.name: card for card in (HANDWRITTEN, CIFAR10, SVHN, MNIST, FASHION_MNIST, *MEDMNIST)
}
