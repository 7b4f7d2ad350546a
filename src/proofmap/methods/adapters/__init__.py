"""Methods of other libraries: Captum, pytorch-grad-cam, shap and lime, by the name of a class or as an object.

If the library is not installed, the error of the method names the extra to install.
"""

from proofmap.methods.adapters import cams, captum, library, lime, shap  # noqa: F401 they register methods
