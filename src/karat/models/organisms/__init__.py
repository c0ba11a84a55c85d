"""Organisms: models with a planted rule. Which rule it is, behaviour proves; explanations are asked to tell it."""

from __future__ import annotations

from karat.models.organisms.certificate import Certificate, certify
from karat.models.organisms.organism import Organism
from karat.models.organisms.recipe import OrganismRecipe
from karat.models.organisms.verify import OrganismVerification, verify_organism

__all__ = ["Certificate", "Organism", "OrganismRecipe", "OrganismVerification", "certify", "verify_organism"]
