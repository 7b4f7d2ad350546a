"""Methods of other libraries: Captum, pytorch-grad-cam, torch-cam and shap, by a class's name or as an object of theirs."""

from proofmap.methods.adapters.cams import PytorchGradCam, TorchCam
from proofmap.methods.adapters.captum import Captum
from proofmap.methods.adapters.objects import FromObject
from proofmap.methods.adapters.shap import Shap

__all__ = ["Captum", "FromObject", "PytorchGradCam", "Shap", "TorchCam"]
