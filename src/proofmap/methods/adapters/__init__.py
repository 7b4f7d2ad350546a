"""Methods of other libraries: Captum, pytorch-grad-cam, torch-cam, shap and lime, by the name of a class or as an object.

Without its library, a method names the extra to install.
"""

from proofmap.methods.adapters.cams import PytorchGradCam, TorchCam
from proofmap.methods.adapters.captum import Captum
from proofmap.methods.adapters.lime import LimeTabular
from proofmap.methods.adapters.objects import FromObject
from proofmap.methods.adapters.shap import Shap

__all__ = ["Captum", "FromObject", "LimeTabular", "PytorchGradCam", "Shap", "TorchCam"]
