"""The wire form of responses: what is made of one where it is sent, and of it where it is received."""

from omnigraph.operations.wire.answering import ReaderGoneError as ReaderGoneError
from omnigraph.operations.wire.answering import answer_request as answer_request
from omnigraph.operations.wire.answering import is_lazy as is_lazy
from omnigraph.operations.wire.attached import attached_there as attached_there
from omnigraph.operations.wire.attached import check_attached as check_attached
from omnigraph.operations.wire.files import SentFile as SentFile
from omnigraph.operations.wire.files import UploadFolder as UploadFolder
from omnigraph.operations.wire.files import files_of as files_of
from omnigraph.operations.wire.files import receiving as receiving
from omnigraph.operations.wire.frames import MEDIA_TYPE as MEDIA_TYPE
from omnigraph.operations.wire.frames import Frame as Frame
from omnigraph.operations.wire.frames import FrameBuffer as FrameBuffer
from omnigraph.operations.wire.frames import FrameKind as FrameKind
from omnigraph.operations.wire.frames import encode_frame as encode_frame
from omnigraph.operations.wire.reading import ResponseReader as ResponseReader
from omnigraph.operations.wire.reading import received_error as received_error
from omnigraph.operations.wire.values import from_bytes as from_bytes
from omnigraph.operations.wire.values import to_bytes as to_bytes
from omnigraph.operations.wire.writing import ResponseWriter as ResponseWriter
from omnigraph.operations.wire.writing import as_error as as_error
from omnigraph.values.formats import WIRE_VERSION as WIRE_VERSION
