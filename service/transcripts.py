"""`/v1/calls/{call_id}/transcript`: the words of callers whose bridge carries audio alone, from its recogniser."""

from typing import Annotated

from fastapi import FastAPI, HTTPException, Path
from pydantic import BaseModel, ConfigDict, Field

from service.calls import Calls
from service.channel import CallLost
from service.protocols.events import UserText


class Transcript(BaseModel):
    """What the recogniser made of the caller's speech."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=8_000, description="The words.")
    final: bool = Field(True, description="False while the recogniser may still change them.")
    language: str | None = Field(None, max_length=35, description="BCP 47 tag, where known.")


def mount(app: FastAPI, calls: Calls) -> None:
    """Put the endpoint on `app`. It answers once the words have been taken: 202, or 404 where there is no such call."""

    @app.post("/v1/calls/{call_id}/transcript", status_code=202)
    async def transcript(call_id: Annotated[str, Path(max_length=128)], body: Transcript) -> dict[str, str]:
        session = calls.find(call_id)
        if session is None:
            raise HTTPException(404, "there is no such call")
        try:
            await session.take([UserText(body.text, body.final, body.language)])
        except CallLost:
            session.hang_up("lost")
            raise HTTPException(404, "the call has just been lost") from None
        return {"call_id": call_id}
